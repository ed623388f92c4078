//! Setting up a client.

use std::{ffi::OsString, fmt, marker::PhantomData, path::PathBuf, sync::Arc};

use turnwright_core::ErrorInfo;

use super::HttpClient;
use crate::{
    Recorder, Replayer, Timeouts,
    format::Format,
    key::{Key, Source},
    setup::Setup,
    transport::Transport,
};

/// Builds an [`HttpClient`].
#[must_use]
pub struct HttpClientBuilder<F> {
    pub(crate) setup: Setup,
    format: PhantomData<fn() -> F>,
}

impl<F: Format> HttpClientBuilder<F> {
    pub(super) fn new(setup: Setup) -> Self {
        Self { setup, format: PhantomData }
    }

    /// Takes key and base URL from variables, as far as they are set: [`Format::KEY_VARS`], [`Format::BASE_URL_VARS`], the
    /// first that is set of each. What is blank is not set. `var` mostly reads the environment; it should not give nothing for
    /// what is no UTF-8, or another server is asked.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](turnwright_core::ErrorKind::Configuration) when the variables of a format cannot be
    /// made a base URL or credentials of.
    pub fn environment(mut self, var: impl Fn(&str) -> Option<String>) -> Result<Self, ErrorInfo> {
        let var = |name: &str| var(name).filter(|value| !value.trim().is_empty());
        if let Some(key) = F::KEY_VARS.iter().find_map(|name| var(name)) {
            self.setup.key = Key::Value(key);
        } else if let Some(signer) = F::signer(&var)? {
            self.setup.key = Key::Signer(signer);
        }
        if let Some(base_url) = F::base_url(&var)? {
            self.setup.base_url = base_url;
        }
        Ok(self)
    }

    /// The address up to and without what the format adds to it (`/chat/completions`, for example), such as
    /// `http://127.0.0.1:8080/v1`. That of the provider who defined the format by default.
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.setup.base_url = base_url.into();
        self
    }

    /// The key, sent where the format wants it. White space round it is dropped; without it none is sent. It replaces the
    /// other sources of a key.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.setup.key = Key::Value(key.into());
        self
    }

    /// The file the key is in, alone. Read for each call, so that a key that is exchanged is used at once: 64 KiB and
    /// 30 s at most, and a regular file. What keeps it from being read fails the call, as
    /// [`ErrorKind::Configuration`](turnwright_core::ErrorKind::Configuration).
    pub fn api_key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.setup.key = Key::Source(Source::File(path.into()));
        self
    }

    /// A command that prints the key, run without a shell and without input when a call needs it. Its key is used for five
    /// minutes, or until the server answers 401 or 403: 64 KiB and 30 s at most. What it says on standard error is dropped. When
    /// it fails, so does the call, as [`ErrorKind::Configuration`](turnwright_core::ErrorKind::Configuration). A call that is
    /// dropped kills the command, not what the command started: it stays in the process group of this program, so that
    /// it can ask for a password at the terminal.
    pub fn api_key_command(
        mut self,
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        self.setup.key = Key::Source(Source::Command { program: program.into(), args });
        self
    }

    /// A further header for every request. It replaces one of the client's own of the same name; its value is treated
    /// as a secret, but for `accept`, `accept-encoding`, `accept-language`, `content-type` and `user-agent`.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.setup.headers.push((name.into(), value.into()));
        self
    }

    /// How long to wait for what.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.setup.timeouts = timeouts;
        self
    }

    /// The provider's name in errors and traces. That of who defined the format by default.
    pub fn provider(mut self, name: impl Into<String>) -> Self {
        self.setup.provider = name.into();
        self
    }

    /// The proxy all calls go through, for example `http://proxy:3128`. By default `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`
    /// and `NO_PROXY` of the environment decide, and servers of this machine are asked directly.
    pub fn proxy(mut self, address: impl Into<String>) -> Self {
        self.setup.proxy = Some(address.into());
        self
    }

    /// Certificates in PEM form, one or more, that are trusted beside those of the system.
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.setup.roots.push(pem.into());
        self
    }

    /// How many calls of this client and its clones may run at once, from the head of the request to the end of the answer;
    /// further ones wait, first come, first served, for as long as [`Timeouts::total`]. Without a limit by default.
    pub fn max_concurrent_calls(mut self, calls: usize) -> Self {
        self.setup.max_calls = Some(calls);
        self
    }

    /// Writes every exchange down. Several clients may share a recorder.
    pub fn record(mut self, recorder: &Recorder) -> Self {
        self.setup.recorder = Some(recorder.clone());
        self
    }

    /// Answers from recordings: nothing is sent, and no key is needed or fetched. Several clients may share a replayer.
    pub fn replay(mut self, replayer: &Replayer) -> Self {
        self.setup.replayer = Some(replayer.clone());
        self
    }

    /// The client. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](turnwright_core::ErrorKind::Configuration) when the base URL, the key, a header, the
    /// proxy, a certificate or the limit of calls cannot be used, with words that say what to change and never repeat the
    /// key; when it is to record and to replay at once; and when no recording to replay is of this format.
    pub fn build(self) -> Result<HttpClient<F>, ErrorInfo> {
        Ok(HttpClient(Arc::new(Transport::new::<F>(self.setup)?), PhantomData))
    }
}

impl<F> Clone for HttpClientBuilder<F> {
    fn clone(&self) -> Self {
        Self { setup: self.setup.clone(), format: PhantomData }
    }
}

impl<F> fmt::Debug for HttpClientBuilder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClientBuilder")
            .field("provider", &self.setup.provider)
            .field("timeouts", &self.setup.timeouts)
            .finish_non_exhaustive()
    }
}
