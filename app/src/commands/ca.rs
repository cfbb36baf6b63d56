//! `sangam ca`: certificates for brokers.

use std::path::Path;

use rcgen::{KeyPair, PublicKeyData};
use rustls_pki_types::PrivatePkcs8KeyDer;
use serde_json::json;

use super::moment;
use crate::ca::{self, Ca, CaError, Document, Entry, Facts, Issued, Name, Request, Wish};
use crate::cli::{CaCommand, CaIssueArgs, InitArgs, RequestArgs, RevokeArgs, SignArgs};
use crate::exit::{Exit, Failure, io};
use crate::identity;
use crate::keep::{self, Readers};
use crate::output;

/// The broker's certificate in its folder.
const CERTIFICATE: &str = "broker.crt";

/// Runs one of the subcommands.
pub(super) fn run(command: &CaCommand, json: bool) -> Result<(), Failure> {
    match command {
        CaCommand::Init(args) => init(args, json),
        CaCommand::Issue(args) => issue(args, json),
        CaCommand::Request(args) => request(args, json),
        CaCommand::Sign(args) => sign(args, json),
        CaCommand::Show { file } => show(file, json),
        CaCommand::Revoke(args) => revoke(args, json),
    }
}

fn init(args: &InitArgs, as_json: bool) -> Result<(), Failure> {
    keep::nothing_there(&Ca::files(&args.dir), args.force)?;
    let limits = (args.days, &args.only[..]);
    Ca::init(&args.dir, &args.name, limits).map_err(failed)?;
    let dir = args.dir.display();
    if as_json {
        let certificate = args.dir.join(ca::CERTIFICATE);
        output::json_line(&json!({ "certificate": certificate, "dir": args.dir }));
        return Ok(());
    }
    output::line(&format!(
        "the authority of {} is in {dir}; whoever reads {dir}/ca.key can pass for any broker\n\n\
         next, for each broker: sangam ca issue --dir {dir} --out DATA_DIR --name HOST\n\
         or, if the broker is elsewhere: sangam ca request there, sangam ca sign here",
        args.name,
    ));
    Ok(())
}

fn issue(args: &CaIssueArgs, as_json: bool) -> Result<(), Failure> {
    let authority = Ca::open(&args.dir).map_err(failed)?;
    let at = |name: &str| args.out.join(name);
    let files = [CERTIFICATE, ca::CERTIFICATE].map(at);
    keep::nothing_there(&files, args.force)?;
    let key = key_in(&args.out)?;
    let (names, days) = (args.wish.name.clone(), args.wish.days);
    let issued = make(&authority, &key, (names, days))?;
    let texts = [&issued.pem, &authority.published().map_err(failed)?];
    for (path, text) in files.iter().zip(texts) {
        keep::write(path, text.as_bytes(), Readers::All).map_err(io(path.display()))?;
    }
    let file = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let [certificate, ca] = files.map(|path| file(&path));
    let key = file(&at(identity::KEY_FILE));
    if as_json {
        output::json_line(&json!({
            "certificate": certificate, "key": key, "ca": ca,
            "serial": issued.entry.serial, "broker": issued.entry.broker,
            "names": issued.entry.names, "until": issued.entry.until,
        }));
        return Ok(());
    }
    output::line(&format!(
        "{}\n\nnext: in this broker's configuration\n  [broker]\n  data_dir = \"{}\"\n  [tls]\n  \
         certificate = \"{}\"\n  key = \"{}\"\n  ca = \"{}\"",
        summary(&issued.entry),
        file(&args.out).display(),
        certificate.display(),
        key.display(),
        ca.display(),
    ));
    Ok(())
}

fn request(args: &RequestArgs, as_json: bool) -> Result<(), Failure> {
    keep::nothing_there([&args.out], args.force)?;
    let key = key_in(&args.data_dir)?;
    let text = ca::request(&key, args.name.clone()).map_err(failed)?;
    keep::write(&args.out, text.as_bytes(), Readers::All).map_err(io(args.out.display()))?;
    let made = Request::read(&args.out).map_err(failed)?;
    let out = args.out.display();
    if as_json {
        let broker = made.broker.to_string();
        output::json_line(&json!({ "request": args.out, "broker": broker }));
        return Ok(());
    }
    output::line(&format!(
        "{out} asks for a certificate of broker {}; it holds nothing secret\n\n\
         next: take it to the authority, and there: sangam ca sign --dir DIR --request {out} \
         --out {CERTIFICATE}\n\
         then bring {CERTIFICATE} and ca.crt back",
        made.broker
    ));
    Ok(())
}

fn sign(args: &SignArgs, as_json: bool) -> Result<(), Failure> {
    let authority = Ca::open(&args.dir).map_err(failed)?;
    keep::nothing_there([&args.out], args.force)?;
    let request = Request::read(&args.request).map_err(failed)?;
    let names = match &args.wish.name[..] {
        [] => request.names,
        names => names.to_vec(),
    };
    let issued = make(&authority, &request.key, (names, args.wish.days))?;
    keep::write(&args.out, issued.pem.as_bytes(), Readers::All).map_err(io(args.out.display()))?;
    if as_json {
        let entry = &issued.entry;
        output::json_line(&json!({
            "certificate": args.out, "serial": entry.serial, "broker": entry.broker,
            "names": entry.names, "until": entry.until,
        }));
        return Ok(());
    }
    output::line(&format!(
        "{}\n\nnext: bring {} and {} to the broker, and name them in its [tls] certificate and ca",
        summary(&issued.entry),
        args.out.display(),
        args.dir.join(ca::CERTIFICATE).display(),
    ));
    Ok(())
}

fn show(file: &Path, as_json: bool) -> Result<(), Failure> {
    match Document::read(file).map_err(failed)? {
        Document::Certificate(facts, revoked) if as_json => {
            output::json_line(&json!({ "certificate": facts, "revoked": revoked }));
        }
        Document::Certificate(facts, revoked) => {
            output::text(&words(&facts));
            if facts.authority {
                output::line(&list(&revoked));
            }
        }
        Document::Request(request) => {
            let names: Vec<_> = request.names.iter().map(Name::to_string).collect();
            if as_json {
                let broker = request.broker.to_string();
                output::json_line(&json!({ "broker": broker, "names": names }));
            } else {
                output::line(&format!(
                    "a request of broker {}, which holds the key\nnames      {}",
                    request.broker,
                    names.join(", ")
                ));
            }
        }
        Document::Revoked(serials) if as_json => {
            output::json_line(&json!({ "revoked": serials }));
        }
        Document::Revoked(serials) => output::line(&list(&serials)),
    }
    Ok(())
}

fn revoke(args: &RevokeArgs, as_json: bool) -> Result<(), Failure> {
    let authority = Ca::open(&args.dir).map_err(failed)?;
    let broker = args.broker.map(|broker| broker.to_string());
    let which = |entry: &Entry| match (&broker, &args.serial) {
        (Some(broker), _) => entry.broker == *broker,
        (None, Some(serial)) => entry.has_serial(serial),
        (None, None) => false,
    };
    let revoked = authority.revoke(which).map_err(failed)?;
    if revoked.is_empty() {
        let message = "no certificate of this authority that is not revoked yet fits that";
        return Err(Failure::new(Exit::Failure, message)
            .hint("`sangam ca show FILE` tells a certificate's broker and serial number"));
    }
    let list = args.dir.join(ca::CERTIFICATE);
    if as_json {
        let serials: Vec<_> = revoked.iter().map(|entry| &entry.serial).collect();
        output::json_line(&json!({ "revoked": serials, "ca": list }));
        return Ok(());
    }
    for entry in &revoked {
        output::line(&format!(
            "revoked {} of broker {}",
            entry.serial, entry.broker
        ));
    }
    output::line(&format!(
        "\nnext: bring {} to every broker in place of the older one, and let it read that again \
         (SIGHUP); until then they do not know",
        list.display()
    ));
    Ok(())
}

fn make(
    authority: &Ca,
    key: &impl PublicKeyData,
    (names, days): (Vec<Name>, u32),
) -> Result<Issued, Failure> {
    authority.issue(Wish { key, names, days }).map_err(failed)
}

/// The key of the broker whose folder this is.
fn key_in(folder: &Path) -> Result<KeyPair, Failure> {
    let pkcs8 = identity::key_for_tls(folder)
        .map_err(|error| Failure::new(Exit::Configuration, error.to_string()))?;
    let pkcs8 = PrivatePkcs8KeyDer::from(pkcs8);
    KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &rcgen::PKCS_ED25519)
        .map_err(|error| failed(error.into()))
}

fn list(revoked: &[String]) -> String {
    match revoked {
        [] => "revoked    nothing".to_owned(),
        serials => format!("revoked    {}", serials.join("\n           ")),
    }
}

fn summary(entry: &Entry) -> String {
    format!(
        "a certificate for broker {}\nnames      {}\nuntil      {}\nserial     {}",
        entry.broker,
        entry.names.join(", "),
        moment(entry.until),
        entry.serial
    )
}

fn words(facts: &Facts) -> String {
    let mut text = format!(
        "for        {}\nby         {}\nfrom       {}\nuntil      {}\nserial     {}\n",
        facts.subject,
        facts.issuer,
        moment(facts.from),
        moment(facts.until),
        facts.serial,
    );
    if facts.authority {
        text += "kind       an authority: it vouches for brokers\n";
    }
    if let Some(broker) = &facts.broker {
        text += &format!("broker     {broker}\n");
    }
    if !facts.names.is_empty() {
        text += &format!("names      {}\n", facts.names.join(", "));
    }
    text
}

fn failed(error: CaError) -> Failure {
    let hint = match &error {
        CaError::Io(path, error) if error.kind() == std::io::ErrorKind::NotFound => missing(path),
        CaError::Wrong(..) => "restore it from a copy; it is never overwritten without --force",
        _ => "",
    };
    Failure::new(Exit::Failure, error.to_string()).hint(hint)
}

fn missing(path: &Path) -> &'static str {
    match path.file_name().and_then(|name| name.to_str()) {
        Some("ca.key" | "ca.crt") => "`sangam ca init --dir DIR --name ORG` makes an authority",
        _ => "",
    }
}
