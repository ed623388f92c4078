use turnwright_core::{ToolCall, ToolResult, TurnContext};
use turnwright_interceptor::{Around, Exit, Next, scope};

struct Hedges;
impl Around<scope::ToolCall> for Hedges {
    async fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        match next.replayable() {
            Ok(mut replay) => {
                let first = replay.run(call.clone());
                let second = replay.run(call);
                first.await.or(second.await)
            }
            Err(refused) => refused.into_next().run(call).await,
        }
    }
}

fn main() {}
