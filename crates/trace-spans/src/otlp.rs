//! OTLP over HTTP, in protobuf, by a blocking client on the exporting thread.

use std::{env, thread, time::Duration};

use opentelemetry::KeyValue;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{Resource, error::OTelSdkResult, trace::SdkTracerProvider};

use crate::{BatchLimits, BatchProcessor, ExportCounters, ExportStats};

/// Where spans go, by OTLP over HTTP. What is not said is as the standard variables say: `OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS`,
/// `…_TIMEOUT`, `…_COMPRESSION` and their `…_TRACES_…` forms, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
/// `OTEL_TRACES_SAMPLER`, `OTEL_BSP_…`.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Otlp {
    endpoint: Option<String>,
    service: Option<String>,
    limits: Option<BatchLimits>,
}

/// Why nothing can be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// A setting cannot be used.
    #[error("traces cannot be exported: {0}")]
    Setting(String),
    /// The machine gives no thread.
    #[error("traces cannot be exported: no thread can be started: {0}")]
    Thread(#[from] std::io::Error),
}

impl Otlp {
    /// To where the variables say, else to this machine: `http://localhost:4318`.
    pub fn new() -> Self {
        Self::default()
    }

    /// To this server, for example `http://localhost:4318`; `/v1/traces` is added unless it is there. It wins over the variables.
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        let url = url.into();
        let bare = url.trim_end_matches('/');
        self.endpoint =
            Some(if bare.ends_with("/v1/traces") { bare.into() } else { format!("{bare}/v1/traces") });
        self
    }

    /// The service's name where `OTEL_SERVICE_NAME` says none.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.service = Some(name.into());
        self
    }

    /// How spans are gathered; as the variables say by default.
    pub fn limits(mut self, limits: BatchLimits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Whether `OTEL_SDK_DISABLED` turns telemetry off.
    pub fn is_disabled() -> bool {
        env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.trim().eq_ignore_ascii_case("true"))
    }

    /// Starts the exporting thread. Blocks for as long as a client takes to be set up; may be called in an async runtime.
    ///
    /// # Errors
    /// [`OtlpError`].
    pub fn start(self) -> Result<Export, OtlpError> {
        let endpoint = self.endpoint;
        // The client has a runtime of its own, which must not be made inside of another one. It is passed, since which one
        // would be taken by itself depends on the features of all crates together.
        let exporter = thread::spawn(move || {
            let client = opentelemetry_client()?;
            let http = SpanExporter::builder().with_http().with_http_client(client);
            let http = http.with_protocol(Protocol::HttpBinary);
            let http = match endpoint {
                Some(url) => http.with_endpoint(url),
                None => http,
            };
            http.build().map_err(|e| OtlpError::Setting(e.to_string()))
        });
        let exporter =
            exporter.join().map_err(|_| OtlpError::Setting("the client cannot be set up".into()))??;
        let batch = BatchProcessor::new(exporter, self.limits.unwrap_or_else(BatchLimits::from_env))?;
        let counters = batch.counters();
        let mut resource = Resource::builder();
        let is_named = |name: &str| env::var(name).is_ok_and(|value| !value.trim().is_empty());
        if let Some(service) = self.service
            && !is_named("OTEL_SERVICE_NAME")
            && !env::var("OTEL_RESOURCE_ATTRIBUTES").is_ok_and(|all| all.contains("service.name="))
        {
            resource = resource.with_attribute(KeyValue::new("service.name", service));
        }
        let provider =
            SdkTracerProvider::builder().with_resource(resource.build()).with_span_processor(batch).build();
        Ok(Export { provider, counters })
    }
}

fn opentelemetry_client() -> Result<reqwest::blocking::Client, OtlpError> {
    // A span that leads to spans of its own export would never end; and a backend that hangs is left alone in time.
    let client = reqwest::blocking::Client::builder().timeout(TIMEOUT).build();
    client.map_err(|e| OtlpError::Setting(e.to_string()))
}

/// No request lasts longer than this; `OTEL_EXPORTER_OTLP_TIMEOUT` may make it shorter.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A provider that exports.
#[derive(Debug, Clone)]
pub struct Export {
    provider: SdkTracerProvider,
    counters: ExportCounters,
}

impl Export {
    /// For [`TracesBuilder::build`](crate::TracesBuilder::build), and for spans of the program's own.
    pub fn provider(&self) -> &SdkTracerProvider {
        &self.provider
    }

    /// What became of spans so far.
    pub fn stats(&self) -> ExportStats {
        self.counters.stats()
    }

    /// Sends what waits and ends, within this time. Blocks: in an async runtime call it by `spawn_blocking`.
    ///
    /// # Errors
    /// When it takes longer, what waits could not be sent, or it was ended before.
    pub fn shutdown(&self, within: Duration) -> OTelSdkResult {
        self.provider.shutdown_with_timeout(within)
    }
}
