//! Collects parameters and their values from rows, for formats that list only configurations.

use evo_space::value::Value;

use crate::replay::draft::Parameters;
use crate::replay::error::RecordingFault;

/// Collects names and values row by row.
#[derive(Debug, Default)]
pub struct Observed {
    parameters: Parameters,
    /// For each row, each parameter's index into `parameters[_].1`.
    rows: Vec<Vec<u16>>,
}

impl Observed {
    /// Adds a row, which must have the parameters of the first one.
    pub fn add<'a>(
        &mut self,
        configuration: impl Iterator<Item = (&'a str, Value)>,
    ) -> Result<(), RecordingFault> {
        let mut pairs: Vec<(&str, Value)> = configuration.collect();
        if self.rows.is_empty() {
            self.parameters = pairs.iter().map(|(name, _)| (name.to_string(), Vec::new())).collect();
        }
        let mut row = Vec::with_capacity(self.parameters.len());
        for (name, values) in &mut self.parameters {
            let Some(at) = pairs.iter().position(|(own, _)| own == name) else {
                return Err(RecordingFault::new(format!(
                    "its configuration has no `{name}`, which the first row has"
                )));
            };
            // Removed, so that what is left at the end is a parameter that the first row did not have.
            let (_, value) = pairs.swap_remove(at);
            let position = values.iter().position(|own| *own == value).unwrap_or_else(|| {
                values.push(value);
                values.len() - 1
            });
            row.push(
                u16::try_from(position)
                    .map_err(|_| RecordingFault::new(format!("`{name}` has too many values")))?,
            );
        }
        if let Some((name, _)) = pairs.first() {
            return Err(RecordingFault::new(format!(
                "its configuration has `{name}`, which the first row does not have"
            )));
        }
        self.rows.push(row);
        Ok(())
    }

    /// Parameters with their values in ascending order (values that cannot be compared stay in order of appearance),
    /// and the rows as positions in these lists.
    pub fn finish(mut self) -> (Parameters, Vec<Vec<u16>>) {
        for (slot, (_, values)) in self.parameters.iter_mut().enumerate() {
            if values.iter().any(|value| value.compare(&values[0]).is_none()) {
                continue;
            }
            // Ascending, so that neighboring positions are neighboring values, which searches rely on.
            let mut order: Vec<usize> = (0..values.len()).collect();
            order.sort_by(|a, b| values[*a].compare(&values[*b]).unwrap_or(std::cmp::Ordering::Equal));
            let mut place = vec![0u16; values.len()];
            order.iter().enumerate().for_each(|(to, from)| place[*from] = to as u16);
            *values = order.iter().map(|from| values[*from].clone()).collect();
            self.rows.iter_mut().for_each(|row| row[slot] = place[usize::from(row[slot])]);
        }
        (self.parameters, self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_sorted_and_rows_follow() {
        let mut observed = Observed::default();
        for (a, b) in [(32, "y"), (8, "x"), (16, "y")] {
            observed.add([("B", Value::text(b)), ("A", Value::Int(a))].into_iter()).unwrap();
        }
        let (parameters, rows) = observed.finish();
        let shown: Vec<String> =
            parameters.iter().map(|(name, values)| format!("{name} {values:?}")).collect();
        assert_eq!(shown, ["B [Text(\"x\"), Text(\"y\")]", "A [Int(8), Int(16), Int(32)]"]);
        assert_eq!(rows, [[1, 2], [0, 0], [1, 1]]);
    }

    #[test]
    fn rows_with_other_parameters_are_refused() {
        let mut observed = Observed::default();
        observed.add([("A", Value::Int(1))].into_iter()).unwrap();
        let less = observed.add(std::iter::empty()).unwrap_err();
        assert_eq!(less.cause, "its configuration has no `A`, which the first row has");
        let more = observed.add([("A", Value::Int(1)), ("B", Value::Int(1))].into_iter()).unwrap_err();
        assert_eq!(more.cause, "its configuration has `B`, which the first row does not have");
    }
}
