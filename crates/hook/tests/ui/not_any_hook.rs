use turnwright_hook::{AnyHook, HookError, point::BeforeTurn};

struct Forgot;
impl BeforeTurn for Forgot {
    async fn before_turn(&self, _: &turnwright_core::TurnContext) -> Result<(), HookError> {
        Ok(())
    }
}

fn register<H: AnyHook>(_: H) {}

fn main() {
    register(Forgot);
}
