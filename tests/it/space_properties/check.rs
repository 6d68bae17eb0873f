//! A small space against every point judged by the constraints as written.

use evo_space::genome::Genome;
use evo_space::space::SearchSpace;

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
    same("the list of rows", space.rows(0..space.count()).iter().eq(space.iter()))?;
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
