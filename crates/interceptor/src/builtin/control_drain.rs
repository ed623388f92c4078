//! Takes cancels from the control channel before a tool runs.

use std::{fmt, sync::Arc};

use turnwright_control::{ControlChannel, drain_control_channel};
use turnwright_core::{ToolResult, TurnContext};

use crate::{Around, Exit, Next, scope};

/// Drains the control channel before each tool call: a cancelled turn starts no further tool. The driver drains at its
/// own safe points too; both call one function, and whoever comes second sees the latch.
pub struct ControlDrain(Arc<dyn ControlChannel>);

impl ControlDrain {
    /// Drains this channel.
    pub fn new(channel: Arc<dyn ControlChannel>) -> Self {
        Self(channel)
    }
}

impl Around<scope::ToolCall> for ControlDrain {
    async fn around(
        &self,
        ctx: &TurnContext,
        call: turnwright_core::ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        drain_control_channel(&*self.0, ctx)?;
        next.run(call).await
    }
}

impl fmt::Debug for ControlDrain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlDrain").finish_non_exhaustive()
    }
}
