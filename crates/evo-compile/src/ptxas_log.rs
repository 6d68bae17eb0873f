//! Reading what the assembler reports of every entry point (`--ptxas-options=-v`).
//!
//! NVRTC mixes these lines with the compiler's own diagnostics; they are taken out here, so that
//! the rest is the log that a person wants to see.

use evo_protocol::binary::EntryResources;

/// Entries carry the names of the object file.
pub fn split(log: &str) -> (Vec<EntryResources>, String) {
    let mut entries: Vec<EntryResources> = Vec::new();
    let mut rest = String::new();
    let mut inside_entry = false;
    for line in log.lines() {
        // The line with the stack frame has no `ptxas` prefix, so its words identify it.
        let text = match line.strip_prefix("ptxas ").map(str::trim_start) {
            Some(report) => report.strip_prefix("info").or_else(|| report.strip_prefix('.')),
            None => line.trim().contains("bytes stack frame").then_some(line),
        };
        let Some(text) = text.map(|text| text.trim_matches([' ', ':', '.'])) else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        if let Some(quoted) = text.strip_prefix("Compiling entry function '") {
            let entry = quoted.split('\'').next().unwrap_or_default().to_string();
            entries.push(EntryResources { entry, ..EntryResources::default() });
        } else if let Some(function) = text.strip_prefix("Function properties for ") {
            // Device functions that are not inlined have properties of their own.
            inside_entry = entries.last().is_some_and(|last| last.entry == function);
        } else if let Some(entry) = entries.last_mut() {
            if let Some(usage) = text.strip_prefix("Used ") {
                // The assembler says nothing about shared memory that is not used.
                entry.shared_static_bytes = Some(0);
                read_numbers(usage, entry);
            } else if inside_entry && text.contains("bytes stack frame") {
                read_numbers(text, entry);
            }
        }
    }
    (entries, rest.trim().to_string())
}

/// `40 registers, used 1 barriers, 1024 bytes smem`; `8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads`.
fn read_numbers(text: &str, entry: &mut EntryResources) {
    for part in text.split(',') {
        let Some((number, what)) = part.trim().split_once(' ') else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        match what {
            "registers" => entry.registers = u32::try_from(number).ok(),
            "bytes smem" => entry.shared_static_bytes = Some(number),
            "bytes stack frame" => entry.stack_bytes = Some(number),
            "bytes spill stores" => entry.spill_store_bytes = Some(number),
            "bytes spill loads" => entry.spill_load_bytes = Some(number),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_read_and_the_rest_is_kept() {
        // Properties of device functions are not the entry's; errors of the assembler stay in the log.
        let error = "ptxas error   : Entry function 'k' uses too much shared data\n";
        let told = [include_str!("ptxas_13.log"), include_str!("ptxas_older.log"), error].map(|log| {
            let (entries, rest) = split(log);
            entries.iter().map(|entry| format!("{entry:?}\n")).collect::<String>() + "rest: " + &rest
        });
        insta::assert_snapshot!(told.join("\n\n"));
    }
}
