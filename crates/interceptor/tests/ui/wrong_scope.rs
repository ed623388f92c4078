use turnwright_core::{ToolCall, ToolResult, TurnContext};
use turnwright_interceptor::{Around, Exit, Interceptors, Next, scope};

struct Tools;
impl Around<scope::ToolCall> for Tools {
    async fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        next.run(call).await
    }
}

fn main() {
    let _ = Interceptors::default().turn.register(Tools);
}
