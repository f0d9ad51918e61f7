//! `evbd keygen`: generates a key for `[security] mode = "psk"`.

use std::{path::PathBuf, process::ExitCode};

use evb_config::{complain, say};
use evb_net::security::PresharedKey;

/// Arguments of `evbd keygen`.
#[derive(clap::Args, Debug)]
pub struct KeygenArguments {
    /// The key file to create; only its owner may read it. An existing file is not changed.
    file: PathBuf,
}

/// Runs `evbd keygen`.
pub fn main(arguments: &KeygenArguments) -> ExitCode {
    let made = PresharedKey::generate().and_then(|key| key.write_new(&arguments.file));
    match made {
        Ok(()) => {
            let file = arguments.file.display();
            say!(
                "made the key file {file}\ncopy it to all machines of the system (scp -p), and write into their configuration:\n\n[security]\nmode     = \"psk\"\nkey_file = \"{file}\""
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
