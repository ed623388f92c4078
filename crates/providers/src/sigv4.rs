//! Signature Version 4 of AWS.

use std::{fmt, time::SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};
use reqwest::{
    Request,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use turnwright_core::{ErrorInfo, ErrorKind, Timestamp};

use crate::setup::configuration;

/// The service as signatures name it.
const SERVICE: &str = "bedrock";

/// Keys of AWS to sign requests with (cargo feature `sigv4`).
///
/// They are used as they are and not renewed: when those of a session expire, requests fail with
/// [`ErrorKind::Authentication`], and a client with new ones is to be built.
#[derive(Clone)]
pub struct AwsCredentials {
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
}

impl AwsCredentials {
    /// The credentials of a user.
    pub fn new(access_key_id: impl Into<String>, secret_access_key: impl Into<String>) -> Self {
        let (access_key_id, secret_access_key) = (access_key_id.into(), secret_access_key.into());
        Self { access_key_id, secret_access_key, session_token: None }
    }

    /// Those of a session, which have a token beside them.
    #[must_use]
    pub fn session_token(mut self, token: impl Into<String>) -> Self {
        self.session_token = Some(token.into());
        self
    }

    /// Those in `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when one of the first two is not set.
    pub fn from_env() -> Result<Self, ErrorInfo> {
        Self::from_vars(&crate::client::variable)
    }

    pub(crate) fn from_vars(var: &dyn Fn(&str) -> Option<String>) -> Result<Self, ErrorInfo> {
        let set = |name: &str| {
            let value = var(name).filter(|value| !value.trim().is_empty());
            value.ok_or_else(|| configuration(format!("{name} is not set")))
        };
        let session_token = set("AWS_SESSION_TOKEN").ok();
        let credentials = Self::new(set("AWS_ACCESS_KEY_ID")?, set("AWS_SECRET_ACCESS_KEY")?);
        Ok(Self { session_token, ..credentials })
    }
}

/// Which key, and no secret.
impl fmt::Debug for AwsCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsCredentials").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

/// Signs the requests to one region.
#[derive(Debug, Clone)]
pub struct Signer {
    credentials: AwsCredentials,
    region: String,
}

impl Signer {
    /// A signer, without white space round what it is given. What cannot stand in a header makes [`Self::sign`] fail.
    pub(crate) fn new(credentials: AwsCredentials, region: &str) -> Self {
        let trim = |text: String| text.trim().to_owned();
        let AwsCredentials { access_key_id, secret_access_key, session_token } = credentials;
        let credentials = AwsCredentials {
            access_key_id: trim(access_key_id),
            secret_access_key: trim(secret_access_key),
            session_token: session_token.map(trim),
        };
        Self { credentials, region: region.trim().to_owned() }
    }

    /// What must be in no error.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        let credentials = &self.credentials;
        let token = credentials.session_token.as_deref();
        token.into_iter().chain([credentials.secret_access_key.as_str()]).collect()
    }

    /// Whether every part can stand in a header; the library that signs takes that for granted.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`], with words that repeat nothing.
    pub(crate) fn check(&self) -> Result<(), ErrorInfo> {
        let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let AwsCredentials { access_key_id, secret_access_key, session_token } = &self.credentials;
        let table = [
            ("the access key id", Some(access_key_id)),
            ("the secret access key", Some(secret_access_key)),
            ("the session token", session_token.as_ref()),
            ("the region", Some(&self.region)),
        ];
        for (what, text) in table {
            if text.is_some_and(|text| !is_plain(text)) {
                return Err(configuration(format!("{what} is empty or holds characters it cannot have")));
            }
        }
        Ok(())
    }

    /// Adds the headers that sign a request with this body: its address, its content type and the time.
    pub(crate) fn sign(&self, request: &mut Request, body: &[u8], now: Timestamp) -> Result<(), ErrorInfo> {
        let failed = |cause: &dyn fmt::Display| {
            ErrorInfo::new(ErrorKind::Internal, format!("the request cannot be signed: {cause}"))
        };
        let AwsCredentials { access_key_id, secret_access_key, session_token } = &self.credentials;
        let (key, secret, token) =
            (access_key_id.as_str(), secret_access_key.as_str(), session_token.clone());
        let identity = Credentials::new(key, secret, token, None, "turnwright").into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(SERVICE)
            .time(SystemTime::try_from(now).map_err(|e| failed(&e))?)
            .settings(SigningSettings::default())
            .build()
            .map_err(|e| failed(&e))?
            .into();
        let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let headers = content_type.map(|value| ("content-type", value)).into_iter();
        let signable = SignableRequest::new(
            request.method().as_str(),
            request.url().as_str(),
            headers,
            SignableBody::Bytes(body),
        );
        let signed = sign(signable.map_err(|e| failed(&e))?, &params).map_err(|e| failed(&e))?;
        let (headers, _) = signed.into_parts().0.into_parts();
        for header in headers {
            let mut value = HeaderValue::from_str(header.value()).map_err(|e| failed(&e))?;
            value.set_sensitive(header.sensitive());
            request.headers_mut().insert(HeaderName::from_static(header.name()), value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
