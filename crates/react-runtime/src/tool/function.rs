//! Tools from functions.

use std::{marker::PhantomData, time::Duration};

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use turnwright_core::{Concurrency, ErrorInfo, ErrorKind, Recovery, ToolDefinition};

use super::{IntoToolOutput, Tool, ToolContext, ToolError, ToolOutput};

/// A tool made of a function. Exclusive, not idempotent and of source `local`, unless told otherwise.
pub struct FunctionTool<F, A> {
    definition: ToolDefinition,
    function: F,
    arguments: PhantomData<fn(A)>,
}

/// Makes a tool of an async function over typed arguments. The schema is derived from the argument type; arguments that
/// do not fit go back to the model as an error. Tools without arguments take an empty struct or `()`.
pub fn tool<A, F, Fut, R>(
    name: impl Into<String>,
    description: impl Into<String>,
    function: F,
) -> FunctionTool<F, A>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send,
    R: IntoToolOutput,
{
    let definition = ToolDefinition {
        name: name.into(),
        description: description.into(),
        parameters: schema_of::<A>(),
        source: "local".into(),
        concurrency: Concurrency::default(),
        idempotent: false,
        timeout: None,
        idle_timeout: None,
        recovery: None,
    };
    FunctionTool { definition, function, arguments: PhantomData }
}

impl<F, A> FunctionTool<F, A> {
    /// May run beside other parallel tools of its batch.
    #[must_use]
    pub fn parallel(mut self) -> Self {
        self.definition.concurrency = Concurrency::Parallel;
        self
    }

    /// Running it twice with the same arguments is harmless, so that a layer may repeat it.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.definition.idempotent = true;
        self
    }

    /// Where the tool comes from, for example the name of a server: part of what a decision covers. `local` by default.
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.definition.source = source.into();
        self
    }

    /// What becomes of a call that was started before its process went away. An idempotent tool runs again by default,
    /// and of any other the model is told that nobody knows whether it took effect.
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.definition.recovery = Some(recovery);
        self
    }

    /// Gives it a deadline of its own; the agent's counts when it is shorter.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.definition.timeout = Some(timeout);
        self
    }

    /// Ends a call that shows no progress for this long ([`ToolContext::progress`] starts the time anew); the deadline
    /// counts beside it. Where the agent has such a limit too, the shorter one counts.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.definition.idle_timeout = Some(timeout);
        self
    }
}

impl<A, F, Fut, R> Tool for FunctionTool<F, A>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send,
    R: IntoToolOutput,
{
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    async fn call(&self, ctx: ToolContext, arguments: String) -> Result<ToolOutput, ToolError> {
        let parsed = match serde_json::from_str::<A>(&arguments) {
            Ok(parsed) => parsed,
            // `()` reads `null`; models send `{}` where there is nothing to say.
            Err(e) if arguments.trim() == "{}" => {
                serde_json::from_str::<A>("null").map_err(|_| invalid_arguments(&self.definition.name, &e))?
            }
            Err(e) => return Err(invalid_arguments(&self.definition.name, &e)),
        };
        (self.function)(ctx, parsed).await?.into_output()
    }
}

fn invalid_arguments(tool: &str, e: &serde_json::Error) -> ToolError {
    let message = format!("the arguments do not fit the schema of {tool:?}: {e}");
    ToolError::info(ErrorInfo::new(ErrorKind::InvalidArguments, message))
}

/// The JSON schema of an argument type, as providers accept it: one object schema without references.
pub fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        if object.get("type").is_some_and(|t| t == "null") {
            *object = serde_json::Map::new();
        }
        object.entry("type").or_insert_with(|| "object".into());
        // Some providers refuse an object schema without properties.
        object.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is read")]
    struct Args {
        /// Where.
        city: String,
        days: Option<u8>,
        inner: Vec<Inner>,
    }
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is read")]
    struct Inner {
        x: f64,
    }

    #[test]
    fn schemas_are_plain_objects_without_references() {
        let s = schema_of::<Args>();
        assert_eq!(s["type"], "object");
        assert_eq!(s["properties"]["city"]["description"], "Where.");
        assert!(!s.to_string().contains("$ref") && !s.to_string().contains("$schema"), "{s}");
        assert_eq!(schema_of::<()>(), json!({ "type": "object", "properties": {} }));
    }
}
