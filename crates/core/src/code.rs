//! Code cells: what goes in and out of the `ExecuteCode` scope.

use serde::{Deserialize, Serialize};

use crate::ErrorInfo;

/// One cell of code to execute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeCell {
    /// The language, for example `python`.
    pub language: String,
    /// The source text.
    pub code: String,
    /// Executor parameters, by name.
    #[serde(default)]
    pub params: serde_json::Map<String, serde_json::Value>,
}

/// What a cell came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeResult {
    /// What the cell printed.
    pub output: String,
    /// The value of its last expression, if it has one.
    pub value: Option<serde_json::Value>,
    /// Why it failed, if it did.
    pub error: Option<ErrorInfo>,
    /// Whether the interpreter was started for this cell, so that nothing of earlier cells was there.
    #[serde(default)]
    pub fresh: bool,
}
