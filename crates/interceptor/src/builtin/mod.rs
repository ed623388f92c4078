//! The built-in layers.

mod attempts;
mod cache;
mod circuit_breaker;
mod context_retry;
mod control_drain;
mod error_budget;
mod fallback;
mod llm_cancel;
mod rate_limit;
mod redact;
mod retry;
mod tool_result_limit;
mod tool_timeout;

pub use cache::Cache;
pub use circuit_breaker::CircuitBreaker;
pub use context_retry::ContextRetry;
pub use control_drain::ControlDrain;
pub use error_budget::ErrorBudget;
pub use fallback::Fallback;
pub use llm_cancel::LlmCancel;
pub use rate_limit::RateLimit;
pub use redact::{Redact, Redactor};
pub use retry::Retry;
pub use tool_result_limit::{Overflow, ToolResultLimit};
pub use tool_timeout::{ToolTimeout, ToolTimeoutLimit};
