//! Turning a caught panic into words. Panics are contained only with `panic = "unwind"`.

use std::any::Any;

/// The message of a caught panic, or a placeholder when it carried none.
pub fn panic_text(payload: &(dyn Any + Send)) -> &str {
    if let Some(s) = payload.downcast_ref::<&str>() {
        s
    } else if let Some(s) = payload.downcast_ref::<String>() {
        s
    } else {
        "no message"
    }
}

/// Whether panics unwind in this build, so that hooks, layers and tools can be isolated from the turn.
pub const fn panics_are_contained() -> bool {
    cfg!(panic = "unwind")
}
