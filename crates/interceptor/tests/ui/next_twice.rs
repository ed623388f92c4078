use turnwright_core::{ToolCall, ToolResult, TurnContext};
use turnwright_interceptor::{Around, Exit, Next, scope};

struct Twice;
impl Around<scope::ToolCall> for Twice {
    async fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        next.run(call.clone()).await?;
        next.run(call).await
    }
}

fn main() {}
