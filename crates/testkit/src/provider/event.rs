//! One event of a body, before it is bytes.

use serde_json::Value;

/// An event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// What an `event:` line says, in formats that have one.
    pub(crate) name: Option<&'static str>,
    pub(crate) data: Data,
    pub(crate) mark: Mark,
}

/// What an event carries.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    Json(Value),
    Text(String),
}

/// What an event is of, so that scenarios can find their place in any format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It says that the answer, or a block of it, begins or ends.
    Frame,
    Text,
    Reasoning,
    Call,
    /// It has the finish reason.
    Finish,
    /// Nothing but usage.
    Usage,
    /// The end mark.
    End,
    /// It is no part of the answer.
    Odd,
}

impl Event {
    pub(crate) fn json(mark: Mark, data: Value) -> Self {
        Self { name: None, data: Data::Json(data), mark }
    }

    pub(crate) fn named(mark: Mark, name: &'static str, data: Value) -> Self {
        Self { name: Some(name), ..Self::json(mark, data) }
    }

    pub(crate) fn text(mark: Mark, data: impl Into<String>) -> Self {
        Self { name: None, data: Data::Text(data.into()), mark }
    }

    /// The JSON it carries, to be changed.
    pub(crate) fn value(&mut self) -> Option<&mut Value> {
        match &mut self.data {
            Data::Json(value) => Some(value),
            Data::Text(_) => None,
        }
    }
}
