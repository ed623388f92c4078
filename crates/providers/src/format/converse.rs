//! Bedrock's ConverseStream.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use turnwright_core::ErrorInfo;
use turnwright_llm_stream::{
    LlmRequest, OutputWay,
    classify::Secrets,
    wire::converse::{ConverseDecoder, converse_body, converse_output_way},
};

use super::{Format, sealed::Sealed};
use crate::{HttpClient, setup::configuration};
#[cfg(feature = "sigv4")]
use crate::{key::Key, signing::Signer};

/// A client for Bedrock's ConverseStream API. A model's name is its id at Bedrock, or the id or ARN of an inference
/// profile.
///
/// There is no base URL by default: it names a region, see [`Converse::region_url`]. Requests carry a key as bearer token
/// or, with the cargo feature `sigv4`, are signed with credentials of AWS (`sign_with`).
///
/// Its environment: `AWS_REGION`, else `AWS_DEFAULT_REGION`, or `AWS_ENDPOINT_URL_BEDROCK_RUNTIME` as base URL, which may
/// need no key; `AWS_BEARER_TOKEN_BEDROCK` is the key. Without it, and with the feature `sigv4`, `AWS_ACCESS_KEY_ID`,
/// `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` sign. To the base URL `/model/{model}/converse-stream` is added.
pub type ConverseClient = HttpClient<Converse>;

/// Bedrock's ConverseStream format.
#[derive(Debug)]
pub enum Converse {}

/// What a segment of a path has as it is; AWS counts on all else being encoded.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl Converse {
    /// The base URL of Bedrock in a region, such as `eu-central-1`.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](turnwright_core::ErrorKind::Configuration) when that is no region's name.
    pub fn region_url(region: &str) -> Result<String, ErrorInfo> {
        let region = region.trim();
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if region.is_empty() || !region.bytes().all(is_name) {
            let message = format!("{region:?} is no name of a region of AWS; an example is us-east-1");
            return Err(configuration(message));
        }
        Ok(format!("https://bedrock-runtime.{region}.amazonaws.com"))
    }
}

fn region(var: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(var)
}

impl Sealed for Converse {}

impl Format for Converse {
    type Decoder = ConverseDecoder;
    const NAME: &'static str = "bedrock";
    const PROVIDER: &'static str = "aws.bedrock";
    /// A region is no matter of taste: whoever builds a client says which.
    const BASE_URL: &'static str = "";
    const WITHOUT_BASE_URL: Option<&'static str> = Some(
        "there is no base URL; set AWS_REGION, or give one such as https://bedrock-runtime.us-east-1.amazonaws.com",
    );
    const KEY_VARS: &'static [&'static str] = &["AWS_BEARER_TOKEN_BEDROCK"];
    const BASE_URL_VARS: &'static [&'static str] = &["AWS_ENDPOINT_URL_BEDROCK_RUNTIME"];
    const PATH: &'static str = "/model";
    const ACCEPT: &'static str = "application/vnd.amazon.eventstream";

    fn base_url(var: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>, ErrorInfo> {
        match (Self::BASE_URL_VARS.iter().find_map(|name| var(name)), region(var)) {
            (Some(base_url), _) => Ok(Some(base_url)),
            (None, Some(region)) => Self::region_url(&region).map(Some),
            (None, None) => Ok(None),
        }
    }

    #[cfg(feature = "sigv4")]
    fn signer(var: &dyn Fn(&str) -> Option<String>) -> Result<Option<Signer>, ErrorInfo> {
        if var("AWS_ACCESS_KEY_ID").is_none() {
            return Ok(None);
        }
        let hint = "AWS_REGION is not set, and a signature names it; an example is us-east-1";
        let region = region(var).ok_or_else(|| configuration(hint.into()))?;
        Ok(Some(Signer::new(crate::AwsCredentials::from_vars(var)?, &region)))
    }

    fn address(mut url: Url, request: &LlmRequest) -> Url {
        let model = utf8_percent_encode(&request.model, SEGMENT);
        let path = format!("{}/{model}/converse-stream", url.path());
        url.set_path(&path);
        url
    }

    fn body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
        converse_body(request)
    }

    fn output_way(request: &LlmRequest) -> OutputWay {
        converse_output_way(request)
    }

    fn decoder(provider: &str, request: &LlmRequest) -> ConverseDecoder {
        ConverseDecoder::for_request(provider, request)
    }

    fn redacting(decoder: ConverseDecoder, secrets: Secrets) -> ConverseDecoder {
        decoder.redacting(secrets)
    }
}

#[cfg(feature = "sigv4")]
impl crate::HttpClientBuilder<Converse> {
    /// Signs every request with these credentials, for this region, which the base URL should name too (cargo feature
    /// `sigv4`). It replaces the key, as a key replaces it.
    pub fn sign_with(mut self, credentials: crate::AwsCredentials, region: &str) -> Self {
        self.setup.key = Key::Signer(Signer::new(credentials, region));
        self
    }
}

#[cfg(test)]
mod tests;
