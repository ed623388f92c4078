//! A history as the contents that the format wants.

use std::{borrow::Cow, collections::HashMap};

use serde_json::json;
use turnwright_core::{CallId, ImageRef, Message, Part, Role, ToolResult};

use super::super::kept::Kept;
use crate::{
    LlmRequest,
    wire::history::{interrupted_response, text_of},
};

mod piece;

use piece::{Content, Piece};

/// What stands for a signature in a history that was made elsewhere.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The system instruction and the contents of a request.
pub(super) struct Contents<'a> {
    pub(super) system: Vec<Cow<'a, str>>,
    pub(super) contents: Vec<Content<'a>>,
}

/// Ids that the server gave to calls.
type WireIds<'a> = HashMap<&'a CallId, &'a str>;

impl<'a> Contents<'a> {
    pub(super) fn of(request: &'a LlmRequest) -> Self {
        let system = request.system.as_deref().map(Cow::Borrowed).into_iter().collect();
        let mut this = Self { system, contents: Vec::new() };
        let mut ids = WireIds::new();
        let wants_signature = wants_signature(&request.model);
        // Results must not be parted, so their images follow them all.
        let mut images: Vec<&ToolResult> = Vec::new();
        for message in &request.messages {
            for result in message.tool_results() {
                let id = ids.get(result.call_id()).copied();
                this.push("user", vec![response(result, id)]);
                images.extend((!result.images.is_empty()).then_some(result));
            }
            if message.role == Role::Tool {
                continue;
            }
            this.push("user", images.drain(..).flat_map(captioned).collect());
            match message.role {
                Role::System if this.contents.is_empty() => this.system.push(text_of(message)),
                Role::System => this.push("user", Piece::text(text_of(message)).into_iter().collect()),
                Role::User | Role::Tool => this.push("user", message.parts.iter().filter_map(said).collect()),
                Role::Assistant => this.answer(answer(message, &mut ids), wants_signature),
            }
        }
        this.push("user", images.drain(..).flat_map(captioned).collect());
        this.system.retain(|text| !text.is_empty());
        this
    }

    /// Adds pieces, to the last content when it is of the same role.
    fn push(&mut self, role: &'static str, pieces: Vec<Piece<'a>>) {
        match self.contents.last_mut() {
            _ if pieces.is_empty() => {}
            Some(last) if last.role == role => last.parts.extend(pieces),
            _ => self.contents.push(Content { role, parts: pieces }),
        }
    }

    fn answer(&mut self, mut pieces: Vec<Piece<'a>>, wants_signature: bool) {
        let first = pieces.iter_mut().find_map(|piece| match piece {
            Piece::Call { signature, .. } => Some(signature),
            _ => None,
        });
        if let Some(signature) = first {
            if wants_signature && signature.is_none() {
                *signature = Some(NO_SIGNATURE);
            }
            if self.contents.is_empty() {
                // Calls that follow nothing are refused: they must follow words of the user, or results.
                let words = "[the conversation before this was left out]";
                self.push("user", vec![Piece::words(words.into())]);
            }
        }
        self.push("model", pieces);
    }
}

/// Whether calls without a signature are refused. Older models know none, and other families neither.
fn wants_signature(model: &str) -> bool {
    model.contains("gemini") && !model.contains("gemini-1.") && !model.contains("gemini-2.")
}

/// An answer, in the order in which it came.
fn answer<'a>(message: &'a Message, ids: &mut WireIds<'a>) -> Vec<Piece<'a>> {
    let mut pieces: Vec<Piece<'a>> = Vec::new();
    let mut marked_up =
        message.interrupted.as_ref().map(|mark| interrupted_response(&text_of(message), mark));
    // What came with the call that follows.
    let mut with_call = (None, None);
    for part in &message.parts {
        let (id, signature) = std::mem::take(&mut with_call);
        match part {
            Part::Reasoning(reasoning) => match Kept::of(reasoning) {
                Some(Kept::Call { id, signature }) => with_call = (id, signature),
                // The words that the others belong to are in the element.
                _ if message.interrupted.is_some() => {}
                Some(Kept::Text { bytes, signature }) => sign(&mut pieces, bytes, signature),
                Some(Kept::Thought { bytes, signature }) => {
                    let start = reasoning.text.len().checked_sub(bytes);
                    // Reasoning that was changed since has no signature any more.
                    pieces.extend(start.and_then(|start| reasoning.text.get(start..)).map(|text| {
                        Piece::Text { text: text.into(), is_thought: true, signature: Some(signature) }
                    }));
                }
                Some(Kept::Part(part)) => pieces.push(Piece::Whole(part)),
                None => {}
            },
            // All of the text of an interrupted answer goes where its first text stands.
            Part::Text { .. } if message.interrupted.is_some() => {
                pieces.extend(marked_up.take().map(|text| Piece::words(text.into())));
            }
            Part::Text { text } => pieces.extend(Piece::text(text.into())),
            Part::ToolCall(call) => {
                if let Some(id) = id {
                    ids.insert(&call.id, id);
                }
                pieces.push(Piece::Call { call, id, signature });
            }
            _ => {}
        }
    }
    pieces.extend(marked_up.map(|text| Piece::words(text.into())));
    pieces
}

/// Puts a signature on so many bytes at the end of the text so far; on an empty text when there are none.
fn sign<'a>(pieces: &mut Vec<Piece<'a>>, bytes: usize, signature: &'a str) {
    let tail = match pieces.last() {
        Some(Piece::Text { text: Cow::Borrowed(text), is_thought: false, signature: None }) if bytes > 0 => {
            let text: &'a str = text;
            text.len().checked_sub(bytes).and_then(|at| text.split_at_checked(at))
        }
        _ => None,
    };
    let text = tail.map_or("", |(before, tail)| {
        pieces.pop();
        pieces.extend(Piece::text(before.into()));
        tail
    });
    pieces.push(Piece::Text { text: text.into(), is_thought: false, signature: Some(signature) });
}

fn response<'a>(result: &'a ToolResult, id: Option<&'a str>) -> Piece<'a> {
    let response = match result.is_error() {
        true => json!({ "error": result.content }),
        false => json!({ "output": result.content }),
    };
    Piece::Response { id, name: result.tool(), response }
}

fn said(part: &Part) -> Option<Piece<'_>> {
    match part {
        Part::Text { text } => Piece::text(text.into()),
        Part::Image(image) => Some(seen(image)),
        _ => None,
    }
}

fn captioned(result: &ToolResult) -> impl Iterator<Item = Piece<'_>> {
    let caption = format!("Images in the result of {} ({}):", result.tool(), result.call_id());
    std::iter::once(Piece::words(caption.into())).chain(result.images.iter().map(seen))
}

/// An image as data, or as a link that the server can follow, or its name in words when it is in a store that the server
/// cannot reach.
fn seen(image: &ImageRef) -> Piece<'_> {
    let uri = image.uri.as_str();
    let media_type = image.media_type.as_deref();
    if let Some((kind, data)) = uri.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        // Its parameters are no part of the type.
        let kind = kind.split(';').next().filter(|kind| !kind.is_empty()).or(media_type);
        return Piece::Data { media_type: kind.unwrap_or("image/png"), data };
    }
    if ["http://", "https://", "gs://"].iter().any(|scheme| uri.starts_with(scheme)) {
        return Piece::Link { media_type: media_type.or_else(|| media_type_of(uri)), uri };
    }
    match uri.starts_with("data:") {
        // Data in a spelling that the format does not know is no name.
        true => Piece::words("[an image that cannot be sent]".into()),
        false => Piece::words(format!("[image {uri}]").into()),
    }
}

/// The media type that the ending of a link tells: servers want one.
fn media_type_of(uri: &str) -> Option<&'static str> {
    let path = uri.split(['?', '#']).next()?;
    Some(match path.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "heic" => "image/heic",
        "heif" => "image/heif",
        _ => return None,
    })
}
