//! A history as the turns that some formats want: user and assistant in alternation, every call answered in the next turn.

use std::{borrow::Cow, sync::Arc};

use turnwright_core::{CallId, ImageRef, Message, Part, Reasoning, Role, ToolCall, ToolResult};

use super::{
    history::{interrupted_response, text_of},
    names::Ids,
};
use crate::LlmRequest;

/// What stands before an answer that begins the history.
const BEGIN: &str = "[What was said before is left out.]";
/// What stands for a turn of blank words.
const BLANK: &str = "[An empty message.]";

/// What is said in the place of the result of a call that has none.
pub(in crate::wire) const NO_RESULT: &str = "No result was recorded for this call.";

/// A piece of a turn, as a format writes it.
pub(in crate::wire) trait Block<'a>: Sized {
    /// The most bytes that an id of a call may have.
    const MAX_ID_BYTES: usize;

    /// Words; nothing when the format allows no such words.
    fn text(text: impl Into<Cow<'a, str>>) -> Option<Self>;
    fn image(image: &'a ImageRef) -> Self;
    fn call(call: &'a ToolCall, ids: &Ids<'_>) -> Self;
    fn result(result: &'a ToolResult, ids: &Ids<'_>) -> Self;
    /// The result of a call that has none.
    fn no_result(call: &CallId, ids: &Ids<'_>) -> Self;
    /// A thought, if it may go back.
    fn thought(reasoning: &'a Reasoning) -> Option<Self>;
    fn is_thought(&self) -> bool;
    /// Takes blanks off the end of words that the model is to go on with, where the format does not allow them.
    fn trim_end(&mut self) {}
}

/// The system prompt and the turns.
#[derive(Debug)]
pub(in crate::wire) struct Conversation<'a, B> {
    pub(in crate::wire) system: Cow<'a, str>,
    pub(in crate::wire) turns: Vec<Turn<B>>,
}

#[derive(Debug)]
pub(in crate::wire) struct Turn<B> {
    pub(in crate::wire) is_assistant: bool,
    /// Come first.
    pub(in crate::wire) results: Vec<B>,
    pub(in crate::wire) blocks: Vec<B>,
}

impl<'a, B: Block<'a>> Conversation<'a, B> {
    /// The conversation of a request, its calls and their results as such.
    pub(in crate::wire) fn of(request: &'a LlmRequest) -> Self {
        Self::build(request, false)
    }

    /// The same, with calls and results in words, for a request that may name no tools.
    pub(in crate::wire) fn in_words(request: &'a LlmRequest) -> Self {
        Self::build(request, true)
    }

    fn build(request: &'a LlmRequest, in_words: bool) -> Self {
        let leading = request.messages.iter().take_while(|message| message.role == Role::System).count();
        let (leading, messages) = request.messages.split_at(leading);
        let given = request.system.as_deref().filter(|system| !system.trim().is_empty());
        let mut system = Cow::Borrowed(given.unwrap_or_default());
        for words in leading.iter().map(|message| text_of(message)).filter(|words| !words.trim().is_empty()) {
            if system.is_empty() {
                system = words;
            } else {
                system.to_mut().push_str("\n\n");
                system.to_mut().push_str(&words);
            }
        }
        let mut builder = Builder {
            turns: Vec::new(),
            open: Vec::new(),
            ids: Ids::of(messages, B::MAX_ID_BYTES),
            in_words,
        };
        messages.iter().for_each(|message| builder.message(message));
        Self { system, turns: builder.finish() }
    }
}

struct Builder<'a, B> {
    turns: Vec<Turn<B>>,
    /// Calls of the last answer that have no result yet.
    open: Vec<&'a CallId>,
    ids: Ids<'a>,
    /// Calls and results are put into words.
    in_words: bool,
}

impl<'a, B: Block<'a>> Builder<'a, B> {
    fn message(&mut self, message: &'a Arc<Message>) {
        if message.role == Role::Assistant {
            return self.answer(message);
        }
        for result in message.tool_results() {
            self.result(result);
        }
        match message.role {
            Role::System => {
                let words = text_of(message);
                if !words.trim().is_empty() {
                    let words = format!("<system_message>{words}</system_message>");
                    self.user().blocks.extend(B::text(words));
                }
            }
            Role::User => {
                let blocks = message.parts.iter().filter_map(|part| match part {
                    Part::Text { text } => B::text(text.as_str()),
                    Part::Image(image) => Some(B::image(image)),
                    _ => None,
                });
                self.user().blocks.extend(blocks);
            }
            Role::Tool | Role::Assistant => {}
        }
    }

    fn result(&mut self, result: &'a ToolResult) {
        match self.open.iter().position(|call| *call == result.call_id()) {
            Some(at) => {
                self.open.remove(at);
                let block = B::result(result, &self.ids);
                self.user().results.push(block);
            }
            None => {
                self.user().blocks.extend(B::text(stray_result(result)));
                self.user().blocks.extend(result.images.iter().map(B::image));
            }
        }
    }

    /// Takes an answer, in the order in which it came: thoughts belong to what follows them.
    fn answer(&mut self, message: &'a Message) {
        let mut marked_up =
            message.interrupted.as_ref().map(|mark| interrupted_response(&text_of(message), mark));
        let mut blocks = Vec::new();
        for part in &message.parts {
            match part {
                Part::Reasoning(reasoning) => blocks.extend(B::thought(reasoning)),
                // All of the text of an interrupted answer goes where its first text stands.
                Part::Text { .. } if message.interrupted.is_some() => {
                    blocks.extend(marked_up.take().and_then(B::text));
                }
                Part::Text { text } => blocks.extend(B::text(text.as_str())),
                Part::ToolCall(call) if self.in_words => blocks.extend(B::text(call_in_words(call))),
                Part::ToolCall(call) => blocks.push(B::call(call, &self.ids)),
                _ => {}
            }
        }
        blocks.extend(marked_up.and_then(B::text));
        // Servers refuse thoughts that nothing follows.
        while blocks.pop_if(|block| block.is_thought()).is_some() {}
        if blocks.is_empty() {
            return;
        }
        match self.turns.last_mut() {
            Some(turn) if turn.is_assistant => turn.blocks.extend(blocks),
            _ => {
                self.answer_open();
                if self.turns.is_empty() {
                    self.user().blocks.extend(B::text(BEGIN));
                }
                self.turns.push(Turn { is_assistant: true, results: Vec::new(), blocks });
            }
        }
        if !self.in_words {
            self.open.extend(message.tool_calls().map(|call| &call.id));
        }
    }

    /// The user's turn that is open; a new one after an answer.
    fn user(&mut self) -> &mut Turn<B> {
        if self.turns.last().is_none_or(|turn| turn.is_assistant) {
            self.turns.push(Turn { is_assistant: false, results: Vec::new(), blocks: Vec::new() });
        }
        let last = self.turns.len() - 1;
        &mut self.turns[last]
    }

    /// Gives the calls that are still open a result.
    fn answer_open(&mut self) {
        for call in std::mem::take(&mut self.open) {
            let block = B::no_result(call, &self.ids);
            self.user().results.push(block);
        }
    }

    fn finish(mut self) -> Vec<Turn<B>> {
        self.answer_open();
        if let Some(last) = self.turns.last_mut().filter(|turn| turn.is_assistant)
            && let Some(block) = last.blocks.last_mut()
        {
            block.trim_end();
        }
        for turn in &mut self.turns {
            if turn.results.is_empty() && turn.blocks.is_empty() {
                turn.blocks.extend(B::text(BLANK));
            }
        }
        self.turns
    }
}

fn call_in_words(call: &ToolCall) -> String {
    format!("[Call of {}] {}", call.name, call.arguments_json())
}

/// A result whose call is not in the conversation, in words.
fn stray_result(result: &ToolResult) -> String {
    let what = if result.error.is_some() { "Error" } else { "Result" };
    format!("[{what} of an earlier call of {}] {}", result.tool(), result.content)
}
