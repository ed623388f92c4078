//! What hooks say to the model.

use turnwright_core::{HistoryError, Message, Origin, TurnContext};

/// Appends a reminder of this hook to the history, where the model reads it with its next request. While calls are open it
/// lands after their results.
///
/// # Errors
/// [`HistoryError::Sealed`] when the turn is over.
pub fn remind(ctx: &TurnContext, hook: &str, text: impl AsRef<str>) -> Result<(), HistoryError> {
    ctx.history().append(reminder(ctx, hook, text)).map(drop)
}

/// The message of a reminder, for hooks that mark it before they append it.
pub(crate) fn reminder(ctx: &TurnContext, hook: &str, text: impl AsRef<str>) -> Message {
    // Words of others inside it must not end it.
    let text = text.as_ref().replace("</system-reminder", "<\\/system-reminder");
    let text = format!("<system-reminder>\n{text}\n</system-reminder>");
    Message::user(ctx.sources().id(), text).origin(Origin::Hook(hook.into()))
}

/// Whether a message is a reminder, of whatever hook.
pub fn is_reminder(message: &Message) -> bool {
    matches!(message.origin, Origin::Hook(_))
}
