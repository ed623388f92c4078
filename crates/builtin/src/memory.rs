//! Memory: what keeps a conversation short enough, and what outlives it.

mod aside;
mod assembly;
mod clean_up;
mod consolidate;
mod core_memory;
mod instructions;
mod metrics;
mod reorientation;
mod transcript;

pub use assembly::{ContextAssembly, ContextSource, DynamicInstructions};
pub use clean_up::CleanUp;
pub use consolidate::Consolidation;
pub use core_memory::{CORE_MEMORY, CoreMemory, CoreMemoryError};
pub use instructions::{InstructionsError, instruction_files};
pub use metrics::CleanupMetrics;
pub use reorientation::TodoReorientation;
pub(crate) use transcript::{is_users, transcript};
