//! Bedrock's ConverseStream.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use turnwright_core::ErrorInfo;
use turnwright_llm_stream::{
    LlmRequest,
    classify::Secrets,
    wire::converse::{ConverseDecoder, converse_body},
};

use super::{Environment, Format, sealed::Sealed};
#[cfg(feature = "sigv4")]
use crate::signing::Signer;
use crate::{HttpClient, transport::configuration};

/// A client for Bedrock's ConverseStream API. A model's name is its id at Bedrock, or the id or ARN of an inference
/// profile.
///
/// There is no base URL by default: it names a region, see [`Converse::base_url`]. Requests carry a key as bearer token
/// or, with the cargo feature `sigv4`, are signed with credentials of AWS (`sign_with`).
///
/// Its environment: `AWS_REGION`, else `AWS_DEFAULT_REGION`, or `AWS_ENDPOINT_URL_BEDROCK_RUNTIME` as base URL, which may
/// need no key; `AWS_BEARER_TOKEN_BEDROCK` is the key. Without it, and with the feature `sigv4`, `AWS_ACCESS_KEY_ID`,
/// `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` sign. To the base URL `/model/{model}/converse-stream` is added.
pub type ConverseClient = HttpClient<Converse>;

/// Bedrock's ConverseStream format.
#[derive(Debug)]
pub enum Converse {}

const KEY: &str = "AWS_BEARER_TOKEN_BEDROCK";
const BASE_URL: &str = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME";
const REGION: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];
const ACCESS_KEY_ID: &str = "AWS_ACCESS_KEY_ID";

/// What a segment of a path has as it is; AWS counts on all else being encoded.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl Converse {
    /// The base URL of Bedrock in a region, such as `eu-central-1`.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](turnwright_core::ErrorKind::Configuration) when that is no region's name.
    pub fn base_url(region: &str) -> Result<String, ErrorInfo> {
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
    REGION.into_iter().find_map(var)
}

fn is_signed(var: &dyn Fn(&str) -> Option<String>) -> bool {
    cfg!(feature = "sigv4") && var(KEY).is_none() && var(ACCESS_KEY_ID).is_some()
}

impl Sealed for Converse {}

impl Format for Converse {
    type Decoder = ConverseDecoder;
    const PROVIDER: &'static str = "aws.bedrock";
    /// A region is no matter of taste: whoever builds a client says which.
    const BASE_URL: &'static str = "";
    const PATH: &'static str = "/model";
    const ACCEPT: &'static str = "application/vnd.amazon.eventstream";

    fn environment(var: &dyn Fn(&str) -> Option<String>) -> Result<Environment, ErrorInfo> {
        let (key, base_url) = (var(KEY), var(BASE_URL));
        if key.is_none() && base_url.is_none() && !is_signed(var) {
            let message = match var(ACCESS_KEY_ID) {
                Some(_) => format!("{KEY} is not set; {ACCESS_KEY_ID} needs the cargo feature sigv4"),
                None => format!("{KEY} is not set; for a server without keys set {BASE_URL}"),
            };
            return Err(configuration(message));
        }
        let base_url = match (base_url, region(var)) {
            (Some(base_url), _) => base_url,
            (None, Some(region)) => Self::base_url(&region)?,
            (None, None) => {
                let [name, _] = REGION;
                return Err(configuration(format!("{name} is not set; an example is us-east-1")));
            }
        };
        Ok(Environment { key, base_url: Some(base_url) })
    }

    #[cfg(feature = "sigv4")]
    fn signer(var: &dyn Fn(&str) -> Option<String>) -> Result<Option<Signer>, ErrorInfo> {
        if !is_signed(var) {
            return Ok(None);
        }
        let region = region(var).ok_or_else(|| {
            let [name, _] = REGION;
            configuration(format!("{name} is not set, and a signature names it; an example is us-east-1"))
        })?;
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

    fn decoder(provider: &str, request: &LlmRequest, secrets: Secrets) -> ConverseDecoder {
        ConverseDecoder::for_request(provider, request).redacting(secrets)
    }
}

#[cfg(feature = "sigv4")]
impl crate::HttpClientBuilder<Converse> {
    /// Signs every request with these credentials, for this region, which the base URL should name too. In place of a
    /// key (cargo feature `sigv4`).
    pub fn sign_with(mut self, credentials: crate::AwsCredentials, region: &str) -> Self {
        self.signer = Some(Signer::new(credentials, region));
        self
    }
}

#[cfg(test)]
mod tests;
