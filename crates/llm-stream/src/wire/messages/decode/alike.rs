//! Pieces that are like an earlier one are not parsed again; see [`crate::wire::template`].

use serde_json::value::RawValue;
use turnwright_core::ErrorInfo;

use super::State;
use crate::{
    StreamItem,
    wire::template::{Template, inside},
};

/// What a piece is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Piece {
    #[default]
    Text,
    Thinking,
    Signature,
    Arguments,
}

impl Piece {
    /// By the word of the format; nothing for what came later than we, and for citations.
    pub(super) fn of(word: &str) -> Option<Self> {
        Some(match word {
            "text_delta" => Self::Text,
            "thinking_delta" => Self::Thinking,
            "signature_delta" => Self::Signature,
            "input_json_delta" => Self::Arguments,
            _ => return None,
        })
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Text => "text_delta",
            Self::Thinking => "thinking_delta",
            Self::Signature => "signature_delta",
            Self::Arguments => "input_json_delta",
        }
    }
}

/// How the last piece looked, and of what it was.
#[derive(Debug, Default)]
pub(super) struct Alike {
    template: Template,
    index: Option<u64>,
    piece: Piece,
}

impl Alike {
    /// Learns from an event that holds this piece, and whose own JSON says so.
    pub(super) fn learn(&mut self, json: &str, index: Option<u64>, piece: Piece, raw: Option<&RawValue>) {
        if let Some(text) = raw.and_then(inside) {
            self.template.learn(json, text);
            (self.index, self.piece) = (index, piece);
        }
    }
}

impl State {
    /// Takes an event that is like the last one but for its string, if it is.
    pub(super) fn like_before(
        &mut self,
        json: &str,
        out: &mut Vec<StreamItem>,
    ) -> Option<Result<(), ErrorInfo>> {
        let text = self.alike.template.string(json)?;
        Some(self.piece(self.alike.index, self.alike.piece, text, out))
    }
}
