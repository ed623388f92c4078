//! Google's Gemini.

use reqwest::Url;
use turnwright_core::ErrorInfo;
use turnwright_llm_stream::{
    LlmRequest, OutputWay,
    classify::Secrets,
    wire::gemini::{GeminiDecoder, gemini_body, gemini_output_way},
};

use super::{Format, KeyHeader, sealed::Sealed};
use crate::HttpClient;

/// A client for the Gemini API and, by base URL and header, for Vertex AI.
///
/// Its environment: `GEMINI_API_KEY` or `GOOGLE_API_KEY`, and `GOOGLE_GEMINI_BASE_URL` for a server of your own, which may
/// need no key. To the base URL `/v1beta/models/{model}:streamGenerateContent?alt=sse` is added, without `/v1beta` where it
/// names a version already. A model's name may begin with `models/` or with another collection, such as `tunedModels/`.
///
/// For Vertex AI the base URL is `https://{location}-aiplatform.googleapis.com/v1/projects/{project}/locations/{location}/publishers/google`,
/// or ends before `/publishers` where the model's name begins with `publishers/google/models/`. It wants a bearer token in the [header](crate::HttpClientBuilder::header) `authorization`.
pub type GeminiClient = HttpClient<Gemini>;

/// The Gemini format.
#[derive(Debug)]
pub enum Gemini {}

impl Sealed for Gemini {}

impl Format for Gemini {
    type Decoder = GeminiDecoder;
    const NAME: &'static str = "gemini";
    const PROVIDER: &'static str = "gcp.gemini";
    const BASE_URL: &'static str = "https://generativelanguage.googleapis.com";
    const KEY_VARS: &'static [&'static str] = &["GEMINI_API_KEY", "GOOGLE_API_KEY"];
    const BASE_URL_VARS: &'static [&'static str] = &["GOOGLE_GEMINI_BASE_URL"];
    const VERSION: &'static str = "/v1beta";
    const PATH: &'static str = "";
    const KEY: KeyHeader = KeyHeader::Named("x-goog-api-key");

    fn address(mut url: Url, request: &LlmRequest) -> Url {
        let (collection, name) = request.model.rsplit_once('/').unwrap_or(("models", &request.model));
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(collection.split('/')).push(&format!("{name}:streamGenerateContent"));
        }
        url.set_query(Some("alt=sse"));
        url
    }

    fn body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
        gemini_body(request)
    }

    fn output_way(request: &LlmRequest) -> OutputWay {
        gemini_output_way(request)
    }

    fn decoder(provider: &str, request: &LlmRequest) -> GeminiDecoder {
        GeminiDecoder::for_request(provider, request)
    }

    fn redacting(decoder: GeminiDecoder, secrets: Secrets) -> GeminiDecoder {
        decoder.redacting(secrets)
    }
}
