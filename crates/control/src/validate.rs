//! What every channel refuses.

use turnwright_core::Part;

use crate::{CommandType, ControlCommand, SendError};

/// Whether a channel may accept the command. Every channel calls this first in `send`.
///
/// # Errors
/// [`SendError::ApprovalReserved`], or [`SendError::Invalid`] for: a graph command that names no instance, a lifetime
/// of zero, a message without parts, a message with parts other than text and images.
pub fn validate(command: &ControlCommand) -> Result<(), SendError> {
    let command_type = command.command_type();
    let invalid = |why: &str| Err(SendError::Invalid(format!("{command_type:?} {why}")));
    if command_type == CommandType::ApprovalResponse {
        return Err(SendError::ApprovalReserved);
    }
    if command_type.is_for_graph() && command.scope.graph_instance.is_none() {
        return invalid("names no graph instance");
    }
    match command.body.message() {
        None if command.ttl.is_zero() => invalid("has a lifetime of zero"),
        None => Ok(()),
        Some([]) => invalid("has no parts: a message needs at least one"),
        Some(parts) => match parts.iter().find_map(unsayable) {
            Some(what) => invalid(&format!("has {what} in its message: only text and images can be sent")),
            None => Ok(()),
        },
    }
}

fn unsayable(part: &Part) -> Option<&'static str> {
    match part {
        Part::Text { .. } | Part::Image(_) => None,
        Part::Reasoning(_) => Some("reasoning"),
        Part::ToolCall(_) => Some("a tool call"),
        Part::ToolResult(_) => Some("a tool result"),
        _ => Some("a part of an unknown kind"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use turnwright_core::{ImageRef, Reasoning, SessionId, Sources};

    use super::*;
    use crate::{CommandBody, ControlScope};

    fn said(scope: ControlScope, body: CommandBody) -> Result<(), String> {
        let command = ControlCommand::new(&Sources::default(), scope, "ann", body);
        validate(&command).map_err(|e| e.to_string())
    }

    #[test]
    fn a_message_has_parts_and_only_such_as_a_user_can_say() {
        let session = || ControlScope::session(SessionId::new("s").unwrap());
        let image = Part::Image(ImageRef { uri: "blob:1".into(), media_type: None });
        let said_parts = |parts: Vec<Part>| {
            let node = "review".into();
            [
                said(session(), CommandBody::InjectSteer { parts: parts.clone() }),
                said(session(), CommandBody::InjectUserMessage { parts: parts.clone() }),
                said(ControlScope::graph(session().session, "g"), CommandBody::DeliverToNode { node, parts }),
            ]
        };
        assert_eq!(said_parts(vec![Part::text("left"), image]), [Ok(()), Ok(()), Ok(())]);
        let names = ["InjectSteer", "InjectUserMessage", "DeliverToNode"];
        for (e, name) in said_parts(vec![]).into_iter().zip(names) {
            let e = e.unwrap_err();
            assert!(e.contains(name) && e.contains("has no parts"), "{e}");
        }
        let thought = vec![Part::text("left"), Part::Reasoning(Reasoning::default())];
        for (e, name) in said_parts(thought).into_iter().zip(names) {
            let e = e.unwrap_err();
            assert!(e.contains(name) && e.contains("has reasoning in its message"), "{e}");
        }
    }

    #[test]
    fn a_command_without_a_message_has_a_lifetime() {
        let scope = ControlScope::session(SessionId::new("s").unwrap());
        let drain = ControlCommand::new(&Sources::default(), scope, "ann", CommandBody::DrainTurn);
        assert_eq!(validate(&drain), Ok(()));
        assert!(matches!(validate(&drain.ttl(Duration::ZERO)), Err(SendError::Invalid(_))));
    }
}
