//! The built-in layers.

mod control_drain;
mod llm_cancel;
mod tool_result_limit;
mod tool_timeout;

pub use control_drain::ControlDrain;
pub use llm_cancel::LlmCancel;
pub use tool_result_limit::ToolResultLimit;
pub use tool_timeout::ToolTimeout;
