//! Scripts as servers write them: an encoder a format, each with the liberties that servers take.

mod chat;
mod converse;
pub(super) mod frame;
mod gemini;
mod messages;
mod ollama;
mod responses;
mod spell;

use serde_json::Value;

use super::{decode::Format, dice::Dice, script::Script};

/// An event of the body: its name, where the format has one, and its JSON as it is spelled.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(super) name: Option<&'static str>,
    pub(super) json: String,
}

/// The events of this script.
pub(crate) fn events(format: Format, script: &Script, dice: &mut Dice<'_>) -> Vec<Event> {
    let values = match format {
        Format::Chat => chat::events(script, dice),
        Format::Responses => responses::events(script, dice),
        Format::Messages => messages::events(script, dice),
        Format::Gemini => gemini::events(script, dice),
        Format::Ollama => ollama::events(script, dice),
        Format::Converse => converse::events(script, dice),
    };
    // A line break in a value ends a line.
    let may_break = format != Format::Ollama;
    let spell = |(name, value): (Option<&'static str>, Value)| Event {
        name,
        json: spell::spell(&value, may_break, dice),
    };
    values.into_iter().map(spell).collect()
}
