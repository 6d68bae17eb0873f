"""One line for each sweep: what its journal and its own summary say."""
import json, sys, csv, glob, os
out = csv.writer(sys.stdout)
out.writerow("run evaluations first_verdict_s search_begins_s search_ends_s command_s pace device_busy compile_busy champion_us default_us noise_floor finalists sanitizer_s".split())
for folder in sorted(sys.argv[1:]):
    for path in glob.glob(folder + "/*/journal.jsonl"):
        ev, conf, end = [], [], {}
        for line in open(path):
            try: record = json.loads(line)
            except ValueError: continue
            record = record.get("record", record)
            if record["kind"] == "evaluation": ev.append(record)
            elif record["kind"] == "confirmation": conf.append(record)
            elif record["kind"] == "end": end = record
        if not ev: continue
        t = end.get("throughput") or {}
        last = ev[-1]["at_ms"] / 1e3
        good = [c for c in conf if c["evaluation"].get("objective_ns")]
        best = min((c["evaluation"]["objective_ns"] for c in good), default=None)
        default = [c["evaluation"]["objective_ns"] for c in good if c["number"] == c["baseline"]]
        wall = end.get("at_ms")
        try: wall = float(open(folder.rstrip("/") + ".wall").read()) * 1e3
        except OSError: pass
        out.writerow([os.path.basename(folder.rstrip("/")), len(ev), f"{ev[0]['at_ms']/1e3:.2f}", f"{last - t.get('search_seconds', 0):.2f}", f"{last:.2f}", f"{(wall or 0)/1e3:.2f}",
            f"{t.get('evaluations_per_second', 0):.1f}", f"{t.get('device_busy', 0):.2f}", f"{t.get('compile_busy', 0):.2f}",
            f"{best/1e3:.3f}" if best else "", f"{default[0]/1e3:.3f}" if default else "",
            next((f"{c['noise_floor']:.4f}" for c in conf if c.get("noise_floor")), ""), len(conf) - 1, f"{(end.get('sanitized') or {}).get('seconds', 0):.1f}"])
