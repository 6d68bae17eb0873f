
import os, sys
def children(of):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()
            if int(stat[1]) == of and stat[0] != "Z":
                found.append((int(pid), open(f"/proc/{pid}/cmdline").read()))
        except OSError:
            pass
    return found
def look():
    found = [pid for pid, words in children(os.getppid()) if "--executor" in words]
    for pid in found:
        found += [pid for pid, _ in children(pid)]
    with open("seen", "a") as log:
        log.write(f"{len(found)}\n")
