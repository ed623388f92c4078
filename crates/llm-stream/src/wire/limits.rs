//! Caps that every format keeps.

/// The most bytes that the arguments of all calls of an answer may have together: 16 MiB.
pub const MAX_ARGUMENT_BYTES: usize = 16 * 1024 * 1024;

/// The most calls an answer may have.
pub const MAX_CALLS: usize = 1024;

/// The most bytes that the id or the name of a call may have: 1 KiB.
pub const MAX_LABEL_BYTES: usize = 1024;
