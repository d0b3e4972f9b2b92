package policy

import "strings"

// opaqueRow is the row of programs that run what cannot be judged: other languages,
// build files, editors' commands, programs on another host or in a container. That
// is their purpose, so a rule that names them allows it.
type opaqueRow struct {
	what  string
	names string
}

var opaqueRows = []opaqueRow{
	{"runs a program in another language", `python python2 python3 pypy pypy3 ipython ipython3 perl ruby irb node nodejs deno bun php lua lua5.1 lua5.3 lua5.4
		luajit tclsh wish expect guile racket scheme julia R Rscript octave gnuplot ghc ghci runghc ocaml erl elixir iex escript scala groovy java javac jshell
		jrunscript jjs kotlin csc dotnet pwsh powershell osascript zsh ksh mksh fish csh tcsh elvish nu xonsh bc dc m4 ts-node tsx swift dart crystal nim tcl qjs`},
	{"runs what its files say", `make gmake nmake cmake ctest ninja meson bazel buck scons rake ant mvn mvnw gradle gradlew sbt just task invoke tox nox
		npm npx pnpm yarn corepack go cargo rustc rustup pip pip3 pipx poetry uv uvx conda gem bundle bundler composer mix rebar3 cabal stack lein
		pytest py.test jest vitest mocha tsc eslint prettier phpunit rspec ansible ansible-playbook terraform vagrant packer pre-commit
		husky nx turbo gulp grunt webpack vite rollup esbuild babel gcc g++ cc c++ clang clang++ tcc ld as ar gdb lldb run-parts cron crontab at batch systemctl service
		golangci-lint staticcheck black ruff mypy flake8 pylint isort clang-format shfmt buf protoc wire swc`},
	{"can run commands and write files interactively", `vi vim vim.basic vim.tiny nvim view rvim rview ex ed red nano pico emacs emacsclient mg joe micro kak helix hx
		less more most pg man info screen tmux byobu mutt mail mailx ftp tftp telnet psql mysql mariadb sqlite3 redis-cli mongo mongosh irssi lynx w3m links elinks
		top htop btop iftop nmap tcpdump tshark wireshark msfconsole dialog whiptail zathura pdftex latex pdflatex xelatex lualatex tex
		dmesg journalctl loginctl lftp nethack aspell cowsay cowthink lolcat figlet tig lazygit gitk ranger mc nnn vifm fzf`},
	{"runs commands elsewhere", `docker podman nerdctl ctr crictl kubectl helm oc lxc runc crun buildah skopeo scp sftp rsync sshfs mosh rsh rlogin
		aws az gcloud gh glab flyctl heroku doctl virsh qemu-system-x86_64 multipass`},
	{"changes the system", `apt apt-get aptitude dpkg apk yum dnf rpm zypper pacman emerge snap flatpak brew port nix nix-env nix-shell guix
		mount umount insmod modprobe ldconfig sysctl ip iptables nft useradd usermod passwd chsh visudo update-alternatives kexec reboot shutdown
		wall write dd nc ncat netcat socat openssl gpg keytool ssh-keygen ssh-add fd fdfind tar-split cpio pax bsdtar 7z zipnote rar unrar
		sdiff csplit install-info genie logrotate logsave debugfs mke2fs fsck`},
}

func init() {
	for _, row := range opaqueRows {
		for _, name := range strings.Fields(row.names) {
			programs[name] = func(c *call) { c.opaque(row.what, c.words[0], 1) }
		}
	}
	for _, name := range []string{"make", "npm", "pnpm", "yarn", "go", "cargo"} {
		programs[name] = func(c *call) { buildTool(c) }
	}
}

// buildGlobals are the options that may precede a build tool's command
// and only choose its directory.
var buildGlobals = map[string]string{"make": "-C", "npm": "--prefix", "pnpm": "-C", "yarn": "--cwd", "go": "-C", "cargo": "-C"}

// buildTool lets rules such as "npm test" match `npm --prefix web test` too.
func buildTool(c *call) {
	c.opaque("runs what its files say", c.words[0], 1)
	words := c.words
	global := buildGlobals[words[0].text]
	if len(words) > 2 && global != "" && words[1].is(global) && !words[2].splits && !words[2].globs {
		c.subject = append([]word{words[0]}, words[3:]...)
	}
}
