//! Hooks that come with turnwright, and what they work with. Each is a small struct in a file of its own, with the seed's
//! defaults, and is registered by name: `agent.hook(LoopDetection::default())`. `docs/hooks.md` has the table: point, job, default,
//! what it writes where.
//!
//! A hook speaks to the model by a reminder ([`remind`]): a message of the user's role whose text stands in a
//! `<system-reminder>` element and whose origin is the hook. It is a part of the history; people are not shown it.

mod checkpoint;
mod current_time;
mod env_injection;
mod experience;
mod experience_review;
mod files;
mod inbox_flush;
mod length_guard;
mod logging;
mod loop_detection;
pub mod memory;
mod nudges;
mod overflow;
mod register;
mod reminder;
mod runtime_context;
mod subagent;
mod subagent_auto_send;
mod summarizer;
mod todo;
mod todo_continuation;
mod trajectory;

pub use checkpoint::{Checkpoint, CheckpointStore, IterationCheckpoint, MemoryCheckpoints};
pub use current_time::CurrentTime;
pub use env_injection::{ENV_PREFIX, EnvInjection, InvalidVariable};
pub use experience::{Experience, ExperienceFiles, READ_EXPERIENCE, WRITE_EXPERIENCE};
pub use experience_review::ExperienceReview;
pub use inbox_flush::InboxFlush;
pub use length_guard::LengthGuard;
pub use logging::{Logging, RUN_TARGET};
pub use loop_detection::LoopDetection;
pub use nudges::{TaskDelegationNudge, TodoPlanningNudge};
pub use overflow::{OverflowEntry, OverflowFiles, READ_OVERFLOW};
pub use register::register_tree_aware_hooks;
pub use reminder::{is_reminder, remind};
pub use runtime_context::{RecordContext, RecordedCall, RuntimeContext, runtime_context};
pub use subagent::{SubagentError, Subagents, SubagentsBuilder};
pub use subagent_auto_send::SubagentAutoSend;
pub use summarizer::{Summarizer, SummarizerStats, Summarizing};
pub use todo::{MemoryTodos, TODO_READ, TODO_WRITE, Todo, TodoStatus, TodoStore, todo_tools, todos_of};
pub use todo_continuation::TodoContinuation;
pub use trajectory::{Recording, Trajectories};
