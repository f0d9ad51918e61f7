//! The web page of run control: static files in the binary, which load nothing from other servers.
//! The files hold no secret and need no token. The page gets its data by the same requests as any
//! other client.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Response,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
        X_CONTENT_TYPE_OPTIONS,
    },
};

use super::answer::CROSS_ORIGIN_RESOURCE_POLICY;

/// Content security policy: the browser may load, run and contact only this server, and ignores
/// scripts and styles inside the text of a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// A file of the web page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asset {
    content_type: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($path:literal: $file:literal, $type:expr;)*) => {
        /// All files, by the path of the request.
        const ASSETS: &[(&str, Asset)] = &[
            $(($path, Asset { content_type: $type, bytes: include_bytes!(concat!("page/", $file)) }),)*
        ];
    };
}

assets! {
    "/": "index.html", HTML;
    "/page/page.css": "page.css", STYLE;
    "/page/page.js": "page.js", SCRIPT;
    "/page/run.js": "run.js", SCRIPT;
    "/page/peers.js": "peers.js", SCRIPT;
    "/page/owing.js": "owing.js", SCRIPT;
    "/page/charts.js": "charts.js", SCRIPT;
    "/page/colours.js": "colours.js", SCRIPT;
    "/page/server.js": "server.js", SCRIPT;
    "/page/format.js": "format.js", SCRIPT;
    "/page/dom.js": "dom.js", SCRIPT;
    "/page/icon.svg": "icon.svg", PICTURE;
    "/page/uPlot.iife.min.js": "uPlot.iife.min.js", SCRIPT;
    "/page/uPlot.min.css": "uPlot.min.css", STYLE;
    "/page/uPlot.txt": "uPlot.txt", TEXT;
}

/// Returns the file for the path of a request.
pub(super) fn asset(path: &str) -> Option<Asset> {
    ASSETS.iter().find(|(known, _)| *known == path).map(|(_, asset)| *asset)
}

impl Asset {
    /// Makes a response that the browser does not store, because the next evbd at this address may
    /// have another version.
    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::from(self.bytes));
        let headers = [
            (CONTENT_TYPE, self.content_type),
            (CACHE_CONTROL, "no-store"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (REFERRER_POLICY, "no-referrer"),
            (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"),
        ];
        for (name, value) in headers {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

#[cfg(test)]
mod tests;
