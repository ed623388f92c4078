//! What a server can do wrong.

use std::time::Duration;

/// A named way for a reply to go wrong, or to be right in an unusual way. `after` counts events of the body. In chat
/// completions the first has only the role, then comes one a text or reasoning piece and a fragment, then the finish
/// reason, the usage, and the end mark; other formats have events of their own between these, or fewer. An `after` beyond
/// the last event means the last. More ways, for every format, are in [`crate::scenario`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Silence after so many events, with the connection open.
    Stall {
        /// How many events come first.
        after: usize,
    },
    /// The body ends, in good order as far as HTTP goes, before the answer is whole.
    EndWithoutTerminal {
        /// How many events come first.
        after: usize,
    },
    /// The connection breaks in the midst of the body.
    AbruptClose {
        /// How many events come first.
        after: usize,
    },
    /// An error object comes in place of the rest (`server_error`).
    ErrorInStream {
        /// How many events come first.
        after: usize,
    },
    /// A data line that is not JSON comes, then the rest.
    GarbageLine {
        /// How many events come first.
        after: usize,
    },
    /// Lines end in CRLF, where a format has lines. A client must cope.
    CrLf,
    /// The body comes in pieces of seven bytes. A client must cope.
    SevenByteSplits,
    /// Status 429 with a `retry-after` header.
    RateLimited {
        /// What the header says; whole seconds.
        retry_after: Duration,
    },
    /// Status 500.
    ServerError,
    /// Status 200 with an HTML page.
    HtmlWithOk,
    /// Status 200 with a JSON error object: there is no such key.
    JsonErrorWithOk,
    /// The finish reason comes twice. A client must cope.
    DuplicateFinish,
    /// No usage comes. A client must cope.
    MissingUsage,
    /// The end mark is missing, in formats that have one beside the finish reason. A client must cope.
    MissingDone,
    /// After the finish reason comes a comment, or a blank line, every so often, for ever. A client must cope.
    HeartbeatsAfterFinish {
        /// The pause between two comments.
        every: Duration,
    },
}

impl Fault {
    /// Every fault, with numbers that suit a reply of at least one piece.
    pub const ALL: [Self; 15] = [
        Self::Stall { after: 2 },
        Self::EndWithoutTerminal { after: 2 },
        Self::AbruptClose { after: 2 },
        Self::ErrorInStream { after: 2 },
        Self::GarbageLine { after: 2 },
        Self::CrLf,
        Self::SevenByteSplits,
        Self::RateLimited { retry_after: Duration::from_secs(2) },
        Self::ServerError,
        Self::HtmlWithOk,
        Self::JsonErrorWithOk,
        Self::DuplicateFinish,
        Self::MissingUsage,
        Self::MissingDone,
        Self::HeartbeatsAfterFinish { every: Duration::from_millis(20) },
    ];

    /// Whether the answer is whole all the same.
    pub fn is_harmless(self) -> bool {
        match self {
            Self::CrLf
            | Self::SevenByteSplits
            | Self::DuplicateFinish
            | Self::MissingUsage
            | Self::MissingDone
            | Self::HeartbeatsAfterFinish { .. } => true,
            Self::Stall { .. }
            | Self::EndWithoutTerminal { .. }
            | Self::AbruptClose { .. }
            | Self::ErrorInStream { .. }
            | Self::GarbageLine { .. }
            | Self::RateLimited { .. }
            | Self::ServerError
            | Self::HtmlWithOk
            | Self::JsonErrorWithOk => false,
        }
    }
}
