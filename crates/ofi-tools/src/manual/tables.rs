//! Pages of section 7, from the tables of the transport: variables, and codes.

use ofi_net::Code;
use ofi_net::params::{Flavour, Kind, Param, Status, TABLE};
use roff::{Roff, bold, italic, roman};

use crate::doctor;

/// ofi-nccl(7).
pub(super) fn variables() -> String {
    let mut page = head(
        "ofi-nccl",
        "environment variables of the plugins libnccl-net-ofi.so and libnccom-net.so",
    );
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "Read once, when the plugin starts. A value that cannot be used is one warning and the default; an unknown \
         name of this kind is one warning with the nearest name. Defaults are those of the Neuron plugin; where the \
         NCCL plugin has another one it stands in parentheses.",
    )]);
    page.control("SH", ["VARIABLES"]);
    for param in TABLE {
        variable(&mut page, param);
    }
    see_also(&mut page, "ofi-doctor(1), ofi-errors(7)");
    page.to_roff()
}

fn variable(page: &mut Roff, param: &Param) {
    let takes = match param.kind {
        Kind::Flag => "0 or 1".to_owned(),
        Kind::Number { min, max } => format!("{min} to {max}"),
        Kind::Text => "text".to_owned(),
        Kind::Choice(words) => words.join(", "),
    };
    page.control("TP", []);
    page.text([bold(param.name), roman("="), italic(takes)]);
    let [neuron, nccl] = [Flavour::Neuron, Flavour::Nccl].map(|f| param.default_display(f));
    let default = if neuron == nccl {
        neuron
    } else {
        format!("{neuron} ({nccl})")
    };
    let alias = param.alias.map(|alias| format!(" Also known as {alias}."));
    let effect = match param.status {
        Status::Honoured => String::new(),
        Status::NoEffect(why) => format!(" Without effect: {why}."),
        Status::Withdrawn => " Withdrawn: any value but the default fails init.".to_owned(),
    };
    let alias = alias.unwrap_or_default();
    page.text([roman(format!(
        "{}. Default: {default}.{alias}{effect}",
        param.meaning
    ))]);
}

/// ofi-errors(7).
pub(super) fn codes() -> String {
    let mut page = head(
        "ofi-errors",
        "codes of the errors and warnings of the plugins and of ofi doctor",
    );
    page.control("SH", ["DESCRIPTION"]);
    page.text([
        roman("Each starts a line of the log. "),
        bold("ofi explain CODE"),
        roman(" prints an entry, "),
        bold("ofi explain LOG"),
        roman(" finds the codes of a log."),
    ]);
    page.control("SH", ["ERRORS AND WARNINGS OF THE PLUGINS"]);
    for code in Code::ALL {
        let info = code.info();
        page.control("TP", []);
        page.text([bold(code.to_string()), roman(" "), roman(info.title)]);
        let likely = info.likely.join(", or ");
        page.text([roman(format!("Likely: {likely}. Do: {}.", info.fix))]);
    }
    page.control("SH", ["FINDINGS OF OFI DOCTOR"]);
    for (code, title, fix) in doctor::codes() {
        page.control("TP", []);
        page.text([bold(code), roman(" "), roman(title)]);
        page.text([roman(format!("Do: {fix}."))]);
    }
    see_also(&mut page, "ofi-explain(1), ofi-doctor(1), ofi-nccl(7)");
    page.to_roff()
}

fn head(name: &str, what: &str) -> Roff {
    let mut page = Roff::new();
    let version = concat!("ofi ", env!("CARGO_PKG_VERSION"));
    page.control("TH", [name, "7", "", version, "Open collectives transport"]);
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{name} - {what}"))]);
    page
}

fn see_also(page: &mut Roff, list: &str) {
    page.control("SH", ["SEE ALSO"]);
    page.text([roman(list)]);
}

#[cfg(test)]
mod tests {
    use super::{Code, TABLE, codes, variables};

    #[test]
    fn every_variable_and_code_has_its_paragraph() {
        let page = variables();
        for param in TABLE {
            assert!(
                page.contains(&format!("\\fB{}\\fR=", param.name)),
                "{}",
                param.name
            );
        }
        let page = codes();
        for code in Code::ALL {
            let name = code.to_string().replace('-', "\\-");
            assert!(page.contains(&format!("\\fB{name}\\fR ")), "{name}");
        }
        assert!(page.contains("OFI\\-D101"));
    }
}
