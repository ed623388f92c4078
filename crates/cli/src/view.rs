//! How a turn looks: as JSON lines, or to people.

mod human;
mod json;
mod words;

use turnwright::TurnEvent;

pub(crate) use human::{Human, Manner};
pub(crate) use json::Json;
pub(crate) use words::{
    counted, ending, exposed, money, one_line, price_of, printable, seconds, spelled, tokens,
};

use crate::output::{Page, To};

/// Turns events into text. Writes nothing itself.
pub(crate) trait View: Send {
    /// What an event adds to the page.
    fn event(&mut self, event: &TurnEvent, page: &mut Page);

    /// Says something to the person in the midst of a turn: whole lines.
    fn aside(&mut self, text: &str, page: &mut Page) {
        page.push(To::Stderr, text);
    }
}
