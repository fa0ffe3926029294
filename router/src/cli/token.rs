//! `nexus-router token …`: makes, lists and revokes the tokens that callers of the daemon show.

use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};

use super::output::{Form, Output, columns, tell};
use super::{Answer, Error};
use crate::access::{self, NewToken, Scope, Token, Visibility};
use crate::app::{self, App, Named};
use crate::clock::{Clock, Timestamp};
use crate::config::{ConfigFile, Environment};
use crate::json::{Object, Value};
use crate::python_text::visible;
use crate::role::Role;
use crate::service::FIRST_TOKEN;

const NEW_HELP: &str = "\
Examples:
  nexus-router token new ci --scope run
  nexus-router token new console --scope read --sees all --expires 90d
  nexus-router token new deploy --scope apply --role envoy --expires 2030-01-01T00:00:00Z
  nexus-router token new ci --scope run > ci.token

The token is written to standard output, once: only a digest of it is kept.
A running daemon takes up new and revoked tokens by itself.";

const LIST_HELP: &str = "\
Examples:
  nexus-router token list
  nexus-router token list --format json";

const REVOKE_HELP: &str = "\
Examples:
  nexus-router token revoke ci
  nexus-router token revoke 7k2m9qx0v4ab --data-dir /var/lib/nexus-router";

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Make a token and print it.
    #[command(after_help = NEW_HELP)]
    New(NewArguments),
    /// List the tokens: their names, ids, scopes and times.
    #[command(after_help = LIST_HELP)]
    List(ListArguments),
    /// Remove a token; whoever has it is refused from then on.
    #[command(after_help = REVOKE_HELP)]
    Revoke(RevokeArguments),
}

#[derive(clap::Args)]
struct Place {
    /// The data directory [default: that of `NEXUS_ROUTER_DATA_DIR`, of router.toml, or
    /// ~/.local/state/nexus-router].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The router's configuration file [default: router.toml, if there is one].
    #[arg(long, visible_alias = "config", value_name = "FILE")]
    config_file: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(super) struct NewArguments {
    /// Its name: 1 to 64 letters, digits, '_', '.' and '-'.
    name: String,
    /// What its bearer may do.
    #[arg(long, value_parser = scope_parser())]
    scope: Scope,
    /// The role that bounds its bearer further.
    #[arg(long, value_parser = role_parser())]
    role: Option<Role>,
    /// The runs that its bearer sees; an administrator sees all.
    #[arg(long, value_name = "RUNS", default_value = "own", value_parser = visibility_parser())]
    sees: Visibility,
    /// When it stops being good: after a time such as 90d (m, h, d, w), or at one (RFC 3339).
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub(super) struct ListArguments {
    #[command(flatten)]
    place: Place,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

#[derive(clap::Args)]
pub(super) struct RevokeArguments {
    /// The name of the token, or its id.
    #[arg(value_name = "NAME_OR_ID")]
    token: String,
    #[command(flatten)]
    place: Place,
}

fn scope_parser() -> impl clap::builder::TypedValueParser<Value = Scope> {
    let value = |scope: Scope| PossibleValue::new(scope.name()).help(scope.doc());
    PossibleValuesParser::new(Scope::ALL.map(value))
        .try_map(|name| Scope::from_name(&name).ok_or("there is no such scope"))
}

fn visibility_parser() -> impl clap::builder::TypedValueParser<Value = Visibility> {
    let value = |sees: Visibility| PossibleValue::new(sees.name()).help(sees.doc());
    PossibleValuesParser::new(Visibility::ALL.map(value))
        .try_map(|name| Visibility::from_name(&name).ok_or("unknown visibility"))
}

fn role_parser() -> impl clap::builder::TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::name))
        .try_map(|name| Role::from_name(&name).ok_or("there is no such role"))
}

pub(super) fn run(verb: Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::New(arguments) => new(arguments, environment),
        Verb::List(arguments) => list(&arguments, environment),
        Verb::Revoke(arguments) => revoke(&arguments, environment),
    }
}

impl Place {
    /// Returns the file with the tokens.
    fn file(&self, environment: &Environment) -> Result<PathBuf, Error> {
        // As the daemon finds it: tokens that it does not read are good for nothing.
        let config = ConfigFile::find(self.config_file.as_deref(), environment)?;
        let named = Named { data_dir: self.data_dir.clone(), ..Named::default() };
        match App::new(environment, config, named).data_dir() {
            Ok(directory) => Ok(directory.join(access::FILE_NAME)),
            Err(app::Error::NoPlace) => Err(Error::usage(
                "there is no place for the tokens: neither XDG_STATE_HOME nor HOME is set",
                "name a directory with --data-dir",
            )),
            Err(error) => Err(error.into()),
        }
    }
}

fn new(arguments: NewArguments, environment: &Environment) -> Result<Answer, Error> {
    let now = Clock::System.now();
    let expires_at = arguments.expires.as_deref().map(|text| expiry(text, now)).transpose()?;
    let NewArguments { name, scope, role, sees, place, .. } = arguments;
    if let (Scope::Admin, Some(role)) = (scope, role) {
        let role = role.name();
        return Err(Error::usage(
            format!(
                "--scope admin and --role {role} contradict each other: an administrator could lift the role"
            ),
            format!("leave out --role, or use --scope apply --role {role}"),
        ));
    }
    let file = place.file(environment)?;
    let new = NewToken { name, scope, role, sees, expires_at };
    let (token, text) = access::create(&file, &new, now)?;
    if let Err(error) = Output::new(environment).line(text.as_str()) {
        // Nobody has it, so nobody should be able to use it.
        access::revoke(&file, &token.id)?;
        return Err(error.into());
    }
    let Token { id, name, .. } = &token;
    let until = match expires_at {
        Some(end) => format!("is good until {end}"),
        None => "does not expire".to_owned(),
    };
    tell(&format!("made token {name} ({id}) with scope {scope}; it {until}"));
    tell(&format!("it is in force where {} is read", visible(&file.display().to_string())));
    tell("hint: keep it now, it is not shown again; send it as `Authorization: Bearer TOKEN`");
    Ok(Answer::Yes)
}

fn list(arguments: &ListArguments, environment: &Environment) -> Result<Answer, Error> {
    let tokens = access::list(&arguments.place.file(environment)?)?;
    let now = Clock::System.now();
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Json => {
            let tokens = tokens.iter().map(|token| as_json(token, now));
            let mut response = Object::new();
            response.insert("tokens", tokens.collect::<Vec<_>>());
            output.value(&response.into())?;
        }
        Form::Human if tokens.is_empty() => {
            tell("there are no tokens; nexus-router token new makes one");
        }
        Form::Human => {
            let heading = ["NAME", "ID", "SCOPE", "ROLE", "SEES", "CREATED", "EXPIRES"];
            let heading = heading.map(str::to_owned).to_vec();
            let rows = tokens.iter().map(|token| as_row(token, now));
            let rows: Vec<Vec<String>> = std::iter::once(heading).chain(rows).collect();
            for line in columns(&rows) {
                output.line(&line)?;
            }
        }
    }
    Ok(Answer::Yes)
}

/// Returns the effective visibility: administrators see all runs.
fn sees(token: &Token) -> Visibility {
    token.sees.effective(token.scope)
}

fn as_row(token: &Token, now: Timestamp) -> Vec<String> {
    let expires = match token.expires_at {
        None => "never".to_owned(),
        Some(end) if token.is_expired(now) => format!("{end} (expired)"),
        Some(end) => end.to_string(),
    };
    vec![
        token.name.clone(),
        token.id.clone(),
        token.scope.name().to_owned(),
        token.role.map_or("-", Role::name).to_owned(),
        sees(token).name().to_owned(),
        token.created_at.to_string(),
        expires,
    ]
}

fn as_json(token: &Token, now: Timestamp) -> Value {
    let mut object = Object::new();
    object.insert("id", token.id.as_str());
    object.insert("name", token.name.as_str());
    object.insert("scope", token.scope.name());
    object.insert("role", token.role.map(Role::name));
    object.insert("sees", sees(token).name());
    object.insert("created_at", token.created_at.to_string());
    object.insert("expires_at", token.expires_at.map(|end| end.to_string()));
    object.insert("expired", token.is_expired(now));
    object.into()
}

fn revoke(arguments: &RevokeArguments, environment: &Environment) -> Result<Answer, Error> {
    let file = arguments.place.file(environment)?;
    let token = access::revoke(&file, &arguments.token)?;
    Output::new(environment).line(&format!("revoked {} ({})", token.name, token.id))?;
    let text = file.with_file_name(FIRST_TOKEN);
    if access::forget_text(&text, &token)? {
        tell(&format!("removed {}, which had its text", visible(&text.display().to_string())));
    }
    Ok(Answer::Yes)
}

/// Reads when a token stops being good: a moment, or a time from now.
fn expiry(text: &str, now: Timestamp) -> Result<Timestamp, Error> {
    let hint = "write a time from now such as 30m, 12h, 90d or 4w, or a moment such as \
                2030-01-01T00:00:00Z";
    let Some(end) = Timestamp::parse(text).or_else(|| after(text, now)) else {
        return Err(Error::usage(format!("--expires '{text}' is no time"), hint));
    };
    if end <= now {
        return Err(Error::usage(format!("--expires {end} is not in the future"), hint));
    }
    Ok(end)
}

/// Reads a time from now. A moment that has no text cannot be kept, so it is none.
fn after(text: &str, now: Timestamp) -> Option<Timestamp> {
    const MINUTE: i64 = 60_000;
    let unit = match text.chars().last()? {
        'm' => MINUTE,
        'h' => 60 * MINUTE,
        'd' => 24 * 60 * MINUTE,
        'w' => 7 * 24 * 60 * MINUTE,
        _ => return None,
    };
    let count = &text[..text.len() - 1];
    let digits = count.bytes().all(|byte| byte.is_ascii_digit());
    let span = count.parse::<i64>().ok().filter(|_| digits)?.checked_mul(unit)?;
    let end = Timestamp::from_millis(now.as_millis().checked_add(span)?);
    (Timestamp::parse(&end.to_string()) == Some(end)).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_a_moment_or_a_time_from_now() {
        let now = Timestamp::parse("2026-11-16T00:00:00Z").unwrap();
        for (text, end) in [
            ("30m", "2026-11-16T00:30:00.000Z"),
            ("12h", "2026-11-16T12:00:00.000Z"),
            ("90d", "2027-02-14T00:00:00.000Z"),
            ("1w", "2026-11-23T00:00:00.000Z"),
            ("2026-11-16T02:00:00+01:00", "2026-11-16T01:00:00.000Z"),
        ] {
            assert_eq!(expiry(text, now).unwrap().to_string(), end, "{text}");
        }
        for bad in [
            "",
            "d",
            "90",
            "0d",
            "-1d",
            "+1d",
            "1.5d",
            "90 d",
            "90é",
            "1y",
            "9000000d",
            "99999999999999999999d",
            "9223372036854775807w",
            "2026-11-16T00:00:00Z",
            "1999-01-01T00:00:00Z",
            "2030-01-01",
        ] {
            assert!(matches!(expiry(bad, now), Err(Error::Usage { .. })), "{bad}");
        }
    }
}
