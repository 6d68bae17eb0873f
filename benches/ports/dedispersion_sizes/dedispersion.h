// In the place of upstream's header of the same name: sizes come from the space file, as macros.
#define nr_samples_per_channel (nr_samples + max_shift)
#define dm_first 0.0f
#define dm_step 0.02f
