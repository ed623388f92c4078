//! Events as JSON lines.

use turnwright::{TurnEvent, TurnEventKind};

use super::{View, ending};
use crate::output::{Look, Page, To, error_lines};

/// One object a line on standard output; why a turn did not complete goes to standard error too.
pub(crate) struct Json {
    errors: Look,
}

impl Json {
    pub(crate) fn new(errors: Look) -> Self {
        Self { errors }
    }
}

impl View for Json {
    fn event(&mut self, event: &TurnEvent, page: &mut Page) {
        match serde_json::to_string(event) {
            Ok(line) => page.push(To::Stdout, line + "\n"),
            Err(e) => {
                let message = format!("event {} cannot be written as JSON: {e}", event.seq);
                page.push(To::Stderr, error_lines(self.errors, &message, None));
            }
        }
        if let TurnEventKind::TurnFinished(finished) = &event.kind {
            page.push(To::Stderr, ending(finished, self.errors));
        }
    }
}
