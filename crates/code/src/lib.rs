//! Code cells: a tool by which a model runs code, and an executor for Python.
//!
//! A cell passes the agent's chain [`execute_code`](turnwright_interceptor::Interceptors::execute_code) on its way to the
//! executor, as a tool call passes its own. Tools that a cell calls pass the gate, the chain and the limits of tool calls
//! ([`ToolContext::call_tool`](turnwright_react_runtime::tool::ToolContext::call_tool)).
//!
//! ```no_run
//! # #[cfg(unix)]
//! # fn f(agent: turnwright_react_runtime::AgentBuilder) -> turnwright_react_runtime::AgentBuilder {
//! use turnwright_code::{Python, code};
//! use turnwright_react_runtime::gate::AskFor;
//!
//! agent.tool(code(Python::default())).gate(AskFor::tools(["code"]))
//! # }
//! ```
//!
//! # What it does not protect from
//!
//! [`Python`] is no sandbox. A cell runs with the rights of the process that started it: it may read and write every file
//! that its user may, use the network, start programs, and find other processes of its user. Its limits are for accidents,
//! not for attacks: the memory limit counts for each process by itself, the number of processes and the space on the disk have
//! none, an administrator (root) can lift them from within, and a process that leaves its group (`setsid`) is not found again. A
//! cell can write where its interpreter answers: it can make up its own result, and end its interpreter, but no reply is taken
//! for that of another cell. The gate sees a cell's text, not what it does; what a layer of cells makes of a text that was
//! approved of is that layer's to answer for. To confine it, run the whole program in a container or
//! a virtual machine, or bring a [`CodeExecutor`] that runs cells there.

mod executor;
#[cfg(unix)]
pub mod process;
#[cfg(unix)]
mod python;
mod tool;

pub use executor::{CodeExecutor, DynCodeExecutor};
#[cfg(unix)]
pub use python::Python;
pub use tool::{CodeTool, code};
