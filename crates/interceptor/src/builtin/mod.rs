//! The built-in layers.

mod attempts;
mod cache;
mod circuit_breaker;
mod control_drain;
mod fallback;
mod llm_cancel;
mod rate_limit;
mod retry;
mod tool_result_limit;
mod tool_timeout;

pub use cache::Cache;
pub use circuit_breaker::CircuitBreaker;
pub use control_drain::ControlDrain;
pub use fallback::Fallback;
pub use llm_cancel::LlmCancel;
pub use rate_limit::RateLimit;
pub use retry::Retry;
pub use tool_result_limit::ToolResultLimit;
pub use tool_timeout::{ToolTimeout, ToolTimeoutLimit};
