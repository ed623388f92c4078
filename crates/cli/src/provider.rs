//! The providers that can be asked: what of them options and environment say, and a model of theirs.

use std::{env, fs};

use turnwright::{
    ErrorInfo, ModelHandle, Timeouts,
    providers::{Chat, Converse, Format, Gemini, HttpClient, HttpClientBuilder, Messages, Ollama, Responses},
};

use crate::{
    args::{AgentArgs, ProviderName, TimeoutArgs},
    config::Config,
    refusal::Refusal,
    tape::Tape,
};

/// What the environment may say of a provider.
pub(crate) struct Variables {
    /// Where a key may be; the first that is set counts.
    pub(crate) keys: &'static [&'static str],
    /// The same for a base URL.
    pub(crate) base_urls: &'static [&'static str],
    /// Whether something must be set: else there is a server of this machine to ask.
    pub(crate) is_needed: bool,
}

/// A model, and where it is asked.
pub(crate) struct Opened {
    pub(crate) model: ModelHandle,
    pub(crate) url: String,
}

impl ProviderName {
    pub(crate) const ALL: [Self; 6] =
        [Self::Openai, Self::OpenaiResponses, Self::Anthropic, Self::Gemini, Self::Ollama, Self::Bedrock];

    pub(crate) fn variables(self) -> Variables {
        fn of<F: Format>(is_needed: bool) -> Variables {
            Variables { keys: F::KEY_VARS, base_urls: F::BASE_URL_VARS, is_needed }
        }
        match self {
            Self::Openai => of::<Chat>(true),
            Self::OpenaiResponses => of::<Responses>(true),
            Self::Anthropic => of::<Messages>(true),
            Self::Gemini => of::<Gemini>(true),
            Self::Ollama => of::<Ollama>(false),
            Self::Bedrock => of::<Converse>(true),
        }
    }

    /// What is wrong with a key, without it.
    pub(crate) fn check_key(self, key: String) -> Result<(), ErrorInfo> {
        fn check<F: Format>(key: String) -> Result<(), ErrorInfo> {
            // Not every format has a base URL by itself, and none is asked.
            HttpClient::<F>::builder().base_url("http://127.0.0.1").api_key(key).build().map(drop)
        }
        match self {
            Self::Openai => check::<Chat>(key),
            Self::OpenaiResponses => check::<Responses>(key),
            Self::Anthropic => check::<Messages>(key),
            Self::Gemini => check::<Gemini>(key),
            Self::Ollama => check::<Ollama>(key),
            Self::Bedrock => check::<Converse>(key),
        }
    }

    /// A model of this provider, as options and environment say. Asks nobody.
    pub(crate) fn open(self, args: &AgentArgs, model: &str, tape: &Tape) -> Result<Opened, Refusal> {
        let opened = match self {
            Self::Openai => open::<Chat>(args, model, tape),
            Self::OpenaiResponses => open::<Responses>(args, model, tape),
            Self::Anthropic => open::<Messages>(args, model, tape),
            Self::Gemini => open::<Gemini>(args, model, tape),
            Self::Ollama => open::<Ollama>(args, model, tape),
            Self::Bedrock => open::<Converse>(args, model, tape),
        };
        opened.map_err(|ErrorInfo { message, .. }| {
            let Variables { keys, base_urls, .. } = self.variables();
            Refusal::new(message).hint(match tape.is_replay() {
                true => "check --provider and --replay".into(),
                false => format!("check --base-url, {} and {}", any(base_urls), any(keys)),
            })
        })
    }
}

impl Variables {
    /// The variable with the key, if one has it.
    pub(crate) fn key(&self) -> Option<&'static str> {
        self.keys.iter().copied().find(|name| var(name).is_some())
    }

    /// The variable with the base URL, if one has it.
    pub(crate) fn base_url(&self) -> Option<&'static str> {
        self.base_urls.iter().copied().find(|name| var(name).is_some())
    }

    fn is_set(&self) -> bool {
        self.key().is_some() || self.base_url().is_some()
    }

    /// What to do where nothing is set.
    pub(crate) fn hint(&self) -> String {
        format!("set {}, or for a server without keys {} or --base-url", any(self.keys), any(self.base_urls))
    }
}

/// Whether a model could be asked, were a command given.
pub(crate) fn is_configured(config: &Config) -> bool {
    if ["agent.provider", "agent.base_url", "agent.model"].iter().any(|key| config.get(key).is_some()) {
        return true;
    }
    let named = var("TURNWRIGHT_PROVIDER")
        .and_then(|name| <ProviderName as clap::ValueEnum>::from_str(&name, true).ok());
    let variables = named.unwrap_or(ProviderName::Openai).variables();
    !variables.is_needed || variables.is_set() || var("TURNWRIGHT_BASE_URL").is_some()
}

/// Whether there is a provider to ask, with these options.
pub(crate) fn has_provider(args: &AgentArgs) -> bool {
    let variables = args.provider.variables();
    !variables.is_needed || variables.is_set() || base_url(args).is_some() || has_key(args)
}

/// Whether the options say where the key is.
pub(crate) fn has_key(args: &AgentArgs) -> bool {
    args.key.api_key_file.is_some() || args.key.api_key_command.is_some()
}

/// The base URL that an option gives.
pub(crate) fn base_url(args: &AgentArgs) -> Option<&str> {
    args.base_url.as_deref().filter(|url| !url.trim().is_empty())
}

/// The model that was named, if one was.
pub(crate) fn model_name(args: &AgentArgs) -> Option<&str> {
    args.model.as_deref().map(str::trim).filter(|model| !model.is_empty())
}

/// The model to ask.
pub(crate) fn model(args: &AgentArgs, tape: &Tape) -> Result<ModelHandle, Refusal> {
    if !has_provider(args) && !tape.is_replay() {
        let hint = args.provider.variables().hint();
        return Err(Refusal::new("no provider is configured")
            .hint(format!("{hint}; `turnwright` alone demonstrates itself without a provider")));
    }
    let Some(model) = model_name(args) else {
        let refusal = Refusal::new("no model is named");
        return Err(refusal.hint("add --model NAME or set TURNWRIGHT_MODEL; the provider says which it has"));
    };
    Ok(args.provider.open(args, model, tape)?.model)
}

fn open<F: Format>(args: &AgentArgs, model: &str, tape: &Tape) -> Result<Opened, ErrorInfo> {
    let mut client: HttpClientBuilder<F> = HttpClient::builder().environment(var)?;
    client = client.timeouts(timeouts(&args.timeouts));
    if let Some(base_url) = base_url(args) {
        client = client.base_url(base_url);
    }
    if let Some(file) = &args.key.api_key_file {
        client = client.api_key_file(file);
    }
    if let Some(command) = &args.key.api_key_command {
        #[cfg(windows)]
        let (shell, flag) = ("cmd", "/C");
        #[cfg(not(windows))]
        let (shell, flag) = ("sh", "-c");
        client = client.api_key_command(shell, [flag, command]);
    }
    if let Some(file) = &args.key.ca_file {
        let pem = fs::read(file).map_err(|why| {
            let message = format!("the certificates in {} cannot be read: {why}", file.display());
            ErrorInfo::new(turnwright::ErrorKind::Configuration, message)
        })?;
        client = client.root_certificates(pem);
    }
    let client = tape.put(client).build()?;
    Ok(Opened { url: client.url().to_owned(), model: ModelHandle::new(client, model) })
}

fn timeouts(args: &TimeoutArgs) -> Timeouts {
    let usual = Timeouts::default();
    Timeouts {
        connect: args.timeout_connect.unwrap_or(usual.connect),
        first_byte: args.timeout_first_byte.unwrap_or(usual.first_byte),
        idle: args.timeout_idle.unwrap_or(usual.idle),
        total: args.timeout_total.unwrap_or(usual.total),
        ..usual
    }
}

/// One of these names, in words.
pub(crate) fn any(names: &[&str]) -> String {
    names.join(" or ")
}

/// A variable that says something: blank ones are as good as unset. One that is no UTF-8 is not: it would ask another
/// server; its wrong characters stay, and are refused.
pub(crate) fn var(name: &str) -> Option<String> {
    env::var_os(name)
        .map(|value| value.to_string_lossy().into_owned())
        .filter(|value| !value.trim().is_empty())
}
