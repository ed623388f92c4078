use turnwright_core::{ToolCall, ToolResult, TurnContext};
use turnwright_interceptor::{Around, Exit, Next, scope};

struct Spawns;
impl Around<scope::ToolCall> for Spawns {
    async fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        tokio::spawn(next.run(call)).await?
    }
}

fn main() {}
