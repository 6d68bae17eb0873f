//! A section keeps the best that was ever confirmed: a study takes it over with a champion that is faster beyond the
//! noise, and otherwise leaves it as it is.

use evo_protocol::leaderboard::{ChampionChange, Leaderboard, LeaderboardSection, RankedEntry};

const HISTORY: usize = 50;

#[derive(Clone, Debug, PartialEq)]
pub enum Succession {
    /// It is on the board: the first of its key, or with a new champion, or with more of the same study.
    Taken,
    /// The champion of an earlier study stays: its section.
    Kept(Box<LeaderboardSection>),
}

pub fn merge(board: &mut Leaderboard, mut section: LeaderboardSection) -> Succession {
    let key = section.key();
    let Some(held) = board.sections.iter_mut().find(|own| own.key() == key) else {
        section.history = vec![change(&section, None)];
        board.sections.push(section);
        board.sections.sort_by_key(LeaderboardSection::key);
        return Succession::Taken;
    };
    let same_variant = is_same(&section.champion, &held.champion);
    let same_study = section.study.name == held.study.name;
    if same_variant && same_study {
        // More evaluations and runners-up of the study that holds the section.
        section.history = std::mem::take(&mut held.history);
        *held = section;
        return Succession::Taken;
    }
    // The champion again says nothing new about who is best; its own first confirmation stays.
    if same_variant || !beats(&section, held) {
        return Succession::Kept(Box::new(held.clone()));
    }
    let ratio = rival(&section, held).map(|rival| speed(rival) / speed(&section.champion));
    let mut history = std::mem::take(&mut held.history);
    history.push(change(&section, ratio));
    history.drain(..history.len().saturating_sub(HISTORY));
    section.history = history;
    *held = section;
    Succession::Taken
}

/// Whether the challenger's champion is faster beyond the noise of both studies.
fn beats(challenger: &LeaderboardSection, held: &LeaderboardSection) -> bool {
    let noise = challenger.noise_floor.unwrap_or(0.0).max(held.noise_floor.unwrap_or(0.0));
    let lead = match rival(challenger, held) {
        // Both were compared with the same baseline in one study: the best evidence there is.
        Some(rival) => speed(&challenger.champion) / speed(rival),
        // Ratios to the same configuration compare across studies; a machine's mood hits both sides of each.
        None if challenger.baseline.configuration == held.baseline.configuration => {
            speed(&challenger.champion) / speed(&held.champion)
        }
        None => held.champion.objective_ns / challenger.champion.objective_ns,
    };
    lead > 1.0 + noise
}

/// The held champion as the challenger's study measured it again, if it did.
fn rival<'a>(challenger: &'a LeaderboardSection, held: &LeaderboardSection) -> Option<&'a RankedEntry> {
    challenger.entries().find(|entry| is_same(entry, &held.champion))
}

fn is_same(one: &RankedEntry, other: &RankedEntry) -> bool {
    one.configuration_hash == other.configuration_hash && one.source_hash == other.source_hash
}

fn speed(entry: &RankedEntry) -> f64 {
    entry.speedup.unwrap_or(1.0)
}

pub fn change(section: &LeaderboardSection, ratio_to_previous: Option<f64>) -> ChampionChange {
    let champion = &section.champion;
    ChampionChange {
        study: section.study.name.clone(),
        at: section.confirmed_at.clone(),
        number: champion.number,
        configuration: champion.configuration.clone(),
        objective_ns: champion.objective_ns,
        speedup: champion.speedup,
        ratio_to_previous,
    }
}
