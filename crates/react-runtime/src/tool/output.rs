//! What a tool returns.

use serde::Serialize;
use turnwright_core::ImageRef;

use super::ToolError;

/// A tool's output, as the model will read it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOutput {
    /// The text.
    pub content: String,
    /// Images, by reference.
    pub images: Vec<ImageRef>,
}

/// A value that can be a tool's output.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    note = "return `String`, `&str`, `serde_json::Value`, `ToolOutput`, or wrap a serializable value in `Json(..)`"
)]
pub trait IntoToolOutput: Send {
    /// The output.
    ///
    /// # Errors
    /// A [`ToolError`] for the model when the value cannot be serialized.
    fn into_output(self) -> Result<ToolOutput, ToolError>;
}

impl IntoToolOutput for ToolOutput {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self)
    }
}
impl IntoToolOutput for String {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput { content: self, images: Vec::new() })
    }
}
impl IntoToolOutput for &'static str {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        self.to_owned().into_output()
    }
}
impl IntoToolOutput for () {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::default())
    }
}
impl IntoToolOutput for serde_json::Value {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        self.to_string().into_output()
    }
}

/// Wraps a serializable value: the model reads it as JSON.
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

impl<T: Serialize + Send> IntoToolOutput for Json<T> {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        serde_json::to_string(&self.0)?.into_output()
    }
}
