//! A small space against every point judged by the constraints as written.

use evo_space::expr::Expr;
use evo_space::genome::Genome;
use evo_space::program::Scratch;
use evo_space::space::SearchSpace;
use evo_space::value::Value;

use super::generator::Spec;

/// How many points are valid, or what the index has wrong.
pub fn check(spec: &Spec) -> Result<usize, String> {
    let points = spec.brute_force();
    let space = spec.build()?;
    let valid: Vec<&Vec<u16>> = points.iter().filter(|(_, holds)| *holds).map(|(point, _)| point).collect();
    let same = |what: &str, right: bool| if right { Ok(()) } else { Err(format!("{what} is wrong")) };
    if space.count() != valid.len() as u128 {
        return Err(format!("counts {} points instead of {}", space.count(), valid.len()));
    }
    same(
        "iteration",
        space.iter().map(|genome| genome.positions().to_vec()).eq(valid.iter().copied().cloned()),
    )?;
    same("exactness", space.is_exact())?;
    let half = valid.len() / 2;
    same("iteration from an index", space.iter_from(half as u128).eq(space.iter().skip(half)))?;
    for (index, point) in valid.iter().enumerate() {
        let genome = Genome::from(point.to_vec());
        same("the point of an index", space.genome_at(index as u128).as_ref() == Some(&genome))?;
        same("the index of a point", space.index_of(&genome) == Some(index as u128))?;
    }
    same("the end", space.genome_at(valid.len() as u128).is_none())?;
    for (point, holds) in &points {
        let genome = Genome::from(point.clone());
        same("membership", space.contains(&genome) == *holds)?;
        same("the index of an invalid point", *holds || space.index_of(&genome).is_none())?;
    }
    check_rank_sum(&space, spec, &valid)?;
    Ok(valid.len())
}

fn check_rank_sum(space: &SearchSpace, spec: &Spec, valid: &[&Vec<u16>]) -> Result<(), String> {
    let rank = |point: &Vec<u16>| {
        let digits = point.iter().zip(&spec.parameters);
        digits.fold(0u64, |rank, (at, (_, values))| rank * values.len() as u64 + u64::from(*at))
    };
    let expected = valid.iter().map(|point| rank(point)).sum::<u64>();
    match space.rank_sum().to_string() == expected.to_string() {
        true => Ok(()),
        false => Err(format!("rank sum {} instead of {expected}", space.rank_sum())),
    }
}

/// Every constraint, compiled, against its tree at every point: the two evaluators of the language.
pub fn check_compiled(spec: &Spec) -> Result<(), String> {
    let points = spec.points();
    for text in &spec.constraints {
        let expr = Expr::parse(text).map_err(|error| format!("{text}: {error}"))?;
        let slot = |name: &str| spec.parameters.iter().position(|(own, _)| own == name);
        let slots: Vec<usize> = expr.distinct_names().iter().filter_map(|name| slot(name)).collect();
        let domains: Vec<Vec<Value>> = slots.iter().map(|slot| spec.parameters[*slot].1.clone()).collect();
        let compiled = expr.compile(&domains);
        let mut scratch = Scratch::default();
        for point in &points {
            let value = |slot: usize| &spec.parameters[slot].1[usize::from(point[slot])];
            let scope = |name: &str| slot(name).map(|slot| value(slot).clone());
            let expected = expr.evaluate(&scope).ok();
            let found = compiled.evaluate(|name| value(slots[name]), &mut scratch);
            if found != expected {
                return Err(format!("{text} is {found:?} instead of {expected:?} at {point:?}"));
            }
        }
    }
    Ok(())
}
