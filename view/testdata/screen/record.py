#!/usr/bin/env python3
"""record.py [NAME...]: records what programs write to a terminal of 80 by 24, as
NAME.raw, for TestScreenGolden. The programs are Debian's: bash, coreutils, vim-tiny,
nano, less, procps, htop, whiptail, dialog, git, tmux, busybox, python3, ncurses-bin,
apt. Nothing of the machine should be in what they write: look before you commit."""
import fcntl, os, pty, select, struct, subprocess, sys, termios, time

DEMO = "/tmp/demo"
ENV = {"TERM": "xterm-256color", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": DEMO,
       "LANG": "C.UTF-8", "PS1": "$ ", "TZ": "UTC", "PYTHONSTARTUP": "", "LESSHISTFILE": "-"}
PRIVATE = ["unshare", "--pid", "--fork", "--mount-proc", "--uts"]

SETUP = r"""
rm -rf /tmp/demo && mkdir -p /tmp/demo/src /tmp/demo/docs && cd /tmp/demo
for i in $(seq 1 120); do echo "line $i: the quick brown fox jumps over the lazy dog"; done > fox.txt
printf '#include <stdio.h>\n\nint main(void)\n{\n\tputs("hello, wörld");\n\treturn 0;\n}\n' > src/main.c
touch docs/a.md archive.tar.gz picture.png 'two words.txt' 日本語.txt; echo true > run.sh; chmod +x run.sh
ln -s fox.txt link; ln -s nowhere dangling; mkfifo pipe
export GIT_AUTHOR_DATE='2024-01-02T03:04:05Z' GIT_COMMITTER_DATE='2024-01-02T03:04:05Z'
git init -q -b main repo && cd repo
git config user.name Demo; git config user.email demo@example.org
c() { echo "$1" >> file; git add file; git commit -qm "$1"; }
m() { echo "$1" >> "$2"; git add "$2"; git commit -qm "$1"; }
c 'first'; c 'second: naïve'; git switch -qc topic; m 'topic work' topic; m 'more of it' topic
git switch -q main; c 'meanwhile'; git merge -q --no-edit topic; git tag v1; git switch -qc next; c 'after'
"""

BOX = r"""
tput smacs; tput cup 3 10; printf l; i=0; while [ $i -lt 30 ]; do printf q; i=$((i+1)); done; printf k
for y in 4 5 6; do tput cup $y 10; printf x; tput cup $y 41; printf x; done
tput cup 7 10; printf m; i=0; while [ $i -lt 30 ]; do printf q; i=$((i+1)); done; printf j; tput rmacs
tput cup 5 14; tput bold; tput setaf 3; printf 'a box of '; tput smul; printf tput; tput sgr0
tput cup 10 0; for c in $(seq 0 15); do tput setab $c; printf ' %2d ' $c; done; tput sgr0
tput cup 12 0; tput rev; printf ' reverse '; tput sgr0; tput sitm; printf ' italic '; tput sgr0
tput cup 20 60; tput el; tput cup 23 0
"""

CURSES = r"""
import curses, time
def main(screen):
    curses.curs_set(0)
    for i in range(1, 7):
        curses.init_pair(i, i, curses.COLOR_BLACK)
    screen.border()
    for i in range(1, 7):
        screen.addstr(i + 1, 4, "color %d " % i + "-" * 40, curses.color_pair(i) | curses.A_BOLD * (i % 2))
    screen.addstr(10, 4, "広い文字 wide characters", curses.A_REVERSE)
    screen.refresh()
    window = curses.newwin(8, 30, 12, 30)
    window.scrollok(True)
    for i in range(20):
        window.addstr("scrolled %d\n" % i)
        window.refresh()
    time.sleep(9)
curses.wrapper(main)
"""

PROGRESS = r"""
import sys, time
print("Collecting demo")
for i in range(0, 101, 4):
    bar = "━" * (i * 40 // 100)
    sys.stdout.write("\r   \x1b[38;2;114;156;31m%s\x1b[0m\x1b[38;5;237m%s\x1b[0m \x1b[32m%d/100 kB\x1b[0m" % (bar, "━" * (40 - len(bar)), i))
    sys.stdout.flush()
print("\r\n\x1b[1mInstalled\x1b[0m demo ✔ 👍")
"""

# NAME: (command, [(seconds, keys)...]); the recording ends after the last wait.
PROGRAMS = {
    "vim": (["vim.tiny", "-u", "NONE", "-i", "NONE", "-N", "src/main.c"],
            [(1, ":set number hlsearch ruler showmode\r"), (.3, "/return\r"), (.3, "Oputs(\"twice\");\x1b"),
             (.3, "yyp"), (.3, ":split fox.txt\r"), (.3, "50Gzz"), (.3, "Vjj"), (.5, "")]),
    "busybox-vi": (["busybox", "vi", "fox.txt"], [(.6, "\x06\x06"), (.3, "dd"), (.3, "ihello \x1b"), (.3, ":w x\r"), (.5, "")]),
    "nano": (["nano", "-I", "-l", "fox.txt"], [(.8, "typed text\r"), (.3, "\x1b[B\x1b[B"), (.3, "\x17lazy\r"), (.5, "")]),
    "less": (["less", "-N", "fox.txt"], [(.6, " "), (.3, "/fox\r"), (.3, "kkk"), (.3, "d"), (.5, "")]),
    "ls": (["bash", "--norc", "-c", "eval $(dircolors -b); ls --color=always -F . src repo; ls --color=always /tmp/demo -1"], [(.8, "")]),
    "git": (["git", "-C", "repo", "log", "--color=always", "--graph", "--all", "--decorate", "--stat=60"],
            [(.8, " "), (.5, "")]),
    "top": (PRIVATE + ["bash", "--norc", "-c", "sleep 60 & top -d 0.5"], [(1.8, "z"), (.8, "")]),
    "htop": (PRIVATE + ["bash", "--norc", "-c", "sleep 60 & htop -d 5"], [(1.5, "\x1b[B"), (.8, "")]),
    "busybox-top": (PRIVATE + ["busybox", "top", "-d", "1"], [(1.5, "")]),
    "whiptail": (["whiptail", "--title", "Demo", "--checklist", "Choose some", "15", "50", "5",
                  "one", "first", "on", "two", "second", "off", "three", "zürich", "off"],
                 [(.6, "\x1b[B "), (.4, "\t"), (.5, "")]),
    "dialog": (["bash", "--norc", "-c", "for i in 10 40 80; do echo $i; sleep .1; done | dialog --title Gauge --gauge 'Working' 8 50; "
                "dialog --title Menu --menu 'Pick one' 12 50 4 a alpha b beta c gamma"], [(1.2, "\x1b[B"), (.5, "")]),
    "bash": (["bash", "--norc", "--noprofile"],
             [(.4, "echo hello wörld\r"), (.3, "ech\t\x1b[Dx\x7f"), (.3, "\x15for i in 1 2 3; do echo $i; done\r"), (.3, "\x12hello"), (.3, "\r"),
              (.3, "seq 30\r"), (.5, "a command that is so long that it does not fit into one line of eighty columns of text\x01# "), (.5, "")]),
    "python": (["/usr/bin/python3", "-q"],
               [(.5, "for i in range(3):\r"), (.2, "    print(i, 'ü' * i)\r\r"), (.3, "{'a': [1, 2]}\r"), (.3, "1 + 1\x01\x1b[C\x1b[C\x1b[C\x7f-"), (.3, "\r"), (.5, "")]),
    "curses": (["/usr/bin/python3", "-c", CURSES], [(1.2, "")]),
    "progress": (["/usr/bin/python3", "-c", PROGRESS], [(.8, "")]),
    "tput": (["sh", "-c", BOX], [(2, "")]),
    "tmux": (["tmux", "-L", "demo", "-f", "/dev/null", "new", "-s", "demo", "bash --norc --noprofile", ";", "set", "-g", "status-right", "",
              ";", "set", "-g", "default-command", "PS1='$ ' exec bash --norc --noprofile", ";", "set", "-g", "automatic-rename", "off", ";", "rename-window", "demo"],
             [(.8, "PS1='$ '\rclear\rseq 40\r"), (.5, "\x02%"), (.8, "ls --color=always\r"), (.5, "\x02\""), (.8, "seq 1 3 50\r"), (1, "")]),
    "apt": (["apt-get", "install", "-y", "--reinstall", "-o", "Dpkg::Progress-Fancy=1", "-o", "Dir::Etc::sourcelist=/dev/null",
             "-o", "Dir::Etc::sourceparts=/dev/null", "/tmp/demo/hello.deb"], [(9, "")]),
}

# The progress bar is gone at the end.
CUT = {"apt": b"Processing triggers"}


def record(name):
    command, keys = PROGRAMS[name]
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(DEMO)
        time.sleep(.2)
        os.execvpe(command[0], command, ENV)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    data = b""
    for wait, text in keys:
        end = time.time() + wait + .2
        while (left := end - time.time()) > 0:
            if select.select([fd], [], [], left)[0]:
                try:
                    data += os.read(fd, 65536)
                except OSError:
                    break
        if text:
            os.write(fd, text.encode())
    os.kill(pid, 9)
    os.close(fd)
    os.waitpid(pid, 0)
    if name in CUT:
        data = data[:data.index(CUT[name])]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".raw"), "wb") as file:
        file.write(data)
    print(name, len(data))


subprocess.run(["bash", "-c", SETUP], check=True)
if os.path.exists("/tmp/hello.deb"):
    os.link("/tmp/hello.deb", DEMO + "/hello.deb")
for name in sys.argv[1:] or PROGRAMS:
    record(name)
subprocess.run(["tmux", "-L", "demo", "kill-server"], stderr=subprocess.DEVNULL)
