package suite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// taskFolder makes a task folder.
func taskFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "task")
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFoldersThatAreRefused(t *testing.T) {
	const image = "[environment]\ndocker_image = \"x\"\n"
	for settings, want := range map[string]string{
		"":                                                                  "no image",
		"schema_version = \"2.0\"\n" + image:                                `schema_version "2.0"`,
		"schema_version = 3\n" + image:                                      `line 1 of task.toml, "schema_version = 3"`,
		image + "gpus = 1\n":                                                "gpus",
		image + "os = \"windows\"\n":                                        `os "windows"`,
		image + "network_mode = \"public\"\n":                               `network_mode = "public"`,
		image + "allow_internet = true\n":                                   "allow_internet",
		image + "allowed_hosts = [\"a\"]\n":                                 "allowed_hosts",
		image + "workdir = \"/proc/x\"\n":                                   "directory of the kernel",
		image + "network_mode = \"allowlist\"\n":                            "allowlist",
		image + "network_mode = \"host\"\n":                                 `"host"`,
		image + "[[environment.mcp_servers]]\nname = \"x\"\n":               "mcp_servers",
		image + "[environment.tpu]\nname = \"x\"\n":                         "tpu",
		image + "memory = \"many\"\n":                                       `size "many"`,
		image + "cpus = -1\n":                                               "out of range",
		image + "cpus = 1e300\n":                                            "out of range",
		image + "cpus = nan\n":                                              "environment.cpus of task.toml is not a finite number",
		image + "memory_mb = 17592186044416\n":                              "out of range",
		image + "storage_mb = 9223372036854775807\n":                        "out of range",
		image + "memory = \"nanG\"\n":                                       `size "nanG"`,
		image + "[agent]\ntimeout_sec = 1e300\n":                            "timeout_sec 1e+300",
		image + "[agent]\ntimeout_sec = inf\n":                              "agent.timeout_sec of task.toml is not a finite number",
		image + "[verifier]\ntimeout_sec = -1\n":                            "timeout_sec -1",
		image + "[[verifier.collect]]\ncommand = \"x\"\ntimeout_sec = 1e30": "timeout_sec 1e+30",
		image + "[environment.env]\nK = \"${KEY}\"\n":                       "variable K, which is taken from the host and has no default",
		image + "[verifier]\nenvironment_mode = \"shared\"\n":               "shared",
		image + "[verifier]\nenvironment_mode = \"mixed\"\n":                "mixed",
		image + "[verifier]\nnetwork_mode = \"public\"\n":                   "--allow-network",
		image + "[[verifier.collect]]\nservice = \"db\"\n":                  `service "db"`,
		image + "[[verifier.collect]]\ntimeout_sec = 3\n":                   "no command",
		image + "[[steps]]\nname = \"x\"\n":                                 "steps/x/instruction.md",
		image + "[[steps]]\nname = \"../x\"\n":                              `"../x" of a step`,
		image + "[[steps]]\nname = \"s\"\nmin_reward = \"a\"\n":             "min_reward",
		image + "[[steps]]\nname = \"s\"\n[[steps]]\nname = \"s\"\n":        "there twice",
		"multi_step_reward_strategy = \"best\"\n" + image:                   `"best"`,
		"artifacts = [\"/tests/x\"]\n" + image:                              "overlaps /tests",
		"artifacts = [\"/dev/x\"]\n" + image:                                "directory of the kernel",
		"artifacts = [{source = \"/a\", destination = \"../b\"}]\n" + image: "destination",
		"artifacts = [{source = \"/a\", service = \"b\"}]\n" + image:        "service",
		"artifacts = [3]\n" + image:                                         "neither",
	} {
		dir := taskFolder(t, map[string]string{"task.toml": settings, "tests/test.sh": "true\n", "steps/s/instruction.md": "x"})
		if _, err := Load([]string{dir}, Allow{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", settings, err, want)
		}
	}
	for file, want := range map[string]string{"environment/docker-compose.yaml": "docker-compose.yaml is not supported", "environment/compose.yml": "compose.yml is not supported", "steps/s/tests/Dockerfile": "steps/s/tests/Dockerfile is not supported", "steps/s/tests/compose.yml": "is not supported"} {
		dir := taskFolder(t, map[string]string{"task.toml": image, "tests/test.sh": "true\n", file: ""})
		if _, err := Load([]string{dir}, Allow{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	for text, want := range map[string]string{
		"FROM x\nRUN true\n":        `"RUN true", which needs an image to be built (run it with --allow-build`,
		"FROM x AS y\n":             `"FROM x AS y"`,
		"FROM x\nCOPY --from=y a b": "COPY --from",
		"FROM x\nCOPY nosuch /app/": "COPY nosuch",
		"FROM x\nCOPY a /sys/a":     "directory of the kernel",
		"FROM x\nUSER www\n":        `"USER www"`,
		"WORKDIR /app\n":            "no FROM",
	} {
		dir := taskFolder(t, map[string]string{"task.toml": "", "tests/test.sh": "true\n", "environment/Dockerfile": text, "environment/a": "a"})
		if _, err := Load([]string{dir}, Allow{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	dir := taskFolder(t, map[string]string{"task.toml": image, "tests/test.sh": "true\n"})
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "tests", "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load([]string{dir}, Allow{}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a link: %v", err)
	}
}

func TestFolder(t *testing.T) {
	dir := taskFolder(t, map[string]string{
		"task.toml":              "version = \"1.0\"\nnew = 1\n[environment]\nmemory = \"2G\"\n[verifier]\ntimeout_sec = 5\n",
		"instruction.md":         "# Canary GUID 1\nDo it.\n",
		"environment/Dockerfile": "FROM img\nWORKDIR /srv/app\nENV A=1\nCOPY sub/ data/\nCOPY one .\n",
		"environment/sub/f":      "f", "environment/one": "1",
		"tests/test.sh": "true\n", "tests/sub/x.py": "", "solution/solve.sh": "true\n", "controls/c/x.py": "",
	})
	tasks, err := Load([]string{filepath.Dir(dir)}, Allow{})
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	task := tasks[0]
	var names []string
	for _, f := range task.Files {
		names = append(names, f.Path)
	}
	switch {
	case task.ID != "task" || task.Image != "img" || task.Grader.Image != "img" || task.Workdir != "/srv/app" || task.Instruction != "Do it.\n":
		t.Errorf("%+v", task)
	case task.Root:
		t.Error("it has a root user")
	case strings.Join(names, " ") != "/srv/app/data/f /srv/app/one" || task.Env[0] != "A=1":
		t.Errorf("files %q, environment %q", names, task.Env)
	case task.Agent.Memory != 2<<30 || task.Grader.Timeout.Seconds() != 5 || len(task.Grader.Tests) != 2 || task.Grader.Controls[0].Name != "c" || !task.Solution.Exists():
		t.Errorf("%+v", task.Grader)
	case len(task.Artifacts) != 1 || task.Artifacts[0].Path != "/srv/app" || len(task.Notices) != 3: // the key, the network, the artifacts
		t.Errorf("artifacts %v, notices %q", task.Artifacts, task.Notices)
	}
}

// What a task asks for is there if it is allowed, and never else.
func TestAllowed(t *testing.T) {
	one := func(settings string, allow Allow) Task {
		t.Helper()
		dir := taskFolder(t, map[string]string{"task.toml": settings, "tests/test.sh": "true\n"})
		tasks, err := Load([]string{dir}, allow)
		if err != nil {
			t.Fatalf("%s: %v", settings, err)
		}
		return tasks[0]
	}
	const image = "[environment]\ndocker_image = \"img\"\n"
	if task := one(image+"network_mode = \"public\"\n[verifier]\nnetwork_mode = \"no-network\"\n", Allow{Network: true}); !task.Agent.Network || task.Grader.Network {
		t.Errorf("agent %v, grader %v", task.Agent.Network, task.Grader.Network)
	}
	if task := one(image+"[verifier]\nenvironment_mode = \"shared\"\n", Allow{Shared: true}); task.Sealed() {
		t.Error("a shared task is sealed")
	}
	if task := one(image, Allow{Shared: true, Network: true}); !task.Sealed() || task.Agent.Network || task.Root {
		t.Errorf("a task that says nothing: %+v", task)
	}
	for settings, allow := range map[string]Allow{image: {Root: true}, image + "[verifier]\nuser = \"root\"\n": {}, image + "workdir = \"/root\"\n": {}, "artifacts = [\"/etc/x\"]\n" + image: {}} {
		if task := one(settings, allow); !task.Root || task.Seed || task.Dirs() != nil {
			t.Errorf("%s: root %v", settings, task.Root)
		}
	}
	task := one(image+"[verifier.environment]\ndocker_image = \"other\"\nworkdir = \"/srv\"\nmemory_mb = 64\n[[verifier.collect]]\ncommand = \"a\"\n", Allow{})
	if g := task.Grader; g.Image != "other" || g.Workdir != "/srv" || g.Memory != 64<<20 || task.Collect[0] != (Hook{"a", time.Minute}) {
		t.Errorf("%+v, hooks %v", g, task.Collect)
	}
}

func TestFolderSteps(t *testing.T) {
	dir := taskFolder(t, map[string]string{
		"task.toml": "artifacts = [\"/app/a\"]\n[environment]\ndocker_image = \"img\"\nnetwork_mode = \"no-network\"\n[verifier.env]\nA = \"1\"\nB = \"1\"\n" +
			"[[steps]]\nname = \"one\"\nmin_reward = 0.5\n[steps.healthcheck]\ncommand = \"true\"\n[[steps]]\nname = \"two\"\nartifacts = [\"b\"]\nmin_reward = {x = 1}\n[steps.verifier.env]\nB = \"2\"\n[steps.agent]\ntimeout_sec = 7\n",
		"tests/test.sh": "true\n", "tests/lib.sh": "", "steps/one/instruction.md": "First.", "steps/two/instruction.md": "Second.", "steps/two/tests/test.sh": "false\n",
		"steps/one/workdir/f": "1", "steps/one/workdir/setup.sh": "true", "steps/two/workdir/f": "2", "steps/one/solution/solve.sh": "true",
	})
	tasks, err := Load([]string{dir}, Allow{})
	if err != nil {
		t.Fatal(err)
	}
	list := tasks[0].Steps.List
	if len(list) != 2 || tasks[0].Steps.Final {
		t.Fatalf("%+v", tasks[0].Steps)
	}
	one, two := list[0], list[1]
	switch {
	case one.Min["reward"] != 0.5 || two.Min["x"] != 1 || one.Task.Instruction != "First." || !one.Task.Solution.Exists() || two.Task.Solution.Exists():
		t.Errorf("%+v\n%+v", one, two)
	case !strings.Contains(one.Task.Ready, "setup.sh") || !strings.Contains(one.Task.Ready, "healthcheck") || two.Task.Ready != "":
		t.Errorf("ready %q and %q", one.Task.Ready, two.Task.Ready)
	case len(one.Task.Artifacts) != 1 || len(two.Task.Artifacts) != 2 || two.Task.Artifacts[1].Path != "/app/b" || two.Task.Agent.Timeout != 7*time.Second:
		t.Errorf("%+v", two.Task)
	case len(two.Task.Files) != 2 || len(two.Files) != 1 || len(two.Task.Grader.Tests) != 2 || strings.Join(two.Task.Grader.Env, " ") != "A=1 B=2":
		t.Errorf("files %v, tests %v, environment %q", two.Task.Files, two.Task.Grader.Tests, two.Task.Grader.Env)
	}
	for _, file := range two.Task.Grader.Tests {
		if file.Path == TestScript && string(file.Content) != "false\n" {
			t.Error("the step's test.sh does not replace the task's")
		}
	}
}

// A Dockerfile that runs something is built, if that is allowed. What belljar must know of it is read.
func TestDockerfileThatIsBuilt(t *testing.T) {
	files := map[string]string{
		"task.toml": "[environment]\nbuild_timeout_sec = 90.0\nmemory_mb = 256\nnetwork_mode = \"no-network\"\n[verifier]\ntimeout_sec = 5\n", "tests/test.sh": "true\n", "solution/solve.sh": "true",
		"environment/Dockerfile": "# syntax=x\r\nFROM --platform=linux/amd64 img:1 AS base\r\nWORKDIR /srv\r\nENV A=1 B=\"2\" PATH=/x:$PATH\r\nRUN apt-get update && \\\r\n    apt-get install x\r\nFROM other AS unused\r\nWORKDIR /elsewhere\r\nFROM base\r\nUSER agent\r\nWORKDIR app\r\n",
		"environment/sub/f":      "f", "environment/.dockerignore": "sub\n",
	}
	tasks, err := Load([]string{taskFolder(t, files)}, Allow{Build: true})
	if err != nil {
		t.Fatal(err)
	}
	task, builds := tasks[0], Builds(tasks)
	if len(builds) != 1 || builds[0].Image != task.Image || task.Grader.Image != task.Image || strings.Join(builds[0].From, " ") != "img:1 other" || builds[0].Timeout != 90*time.Second || builds[0].Memory != 256<<20 || builds[0].Network || len(builds[0].Files) != 3 {
		t.Fatalf("image %q, builds %+v", task.Image, builds)
	}
	if task.Workdir != "/srv/app" || strings.Join(task.Env, " ") != "A=1 B=2" || task.Root || len(task.Files) != 0 {
		t.Errorf("%+v", task)
	}
	said := strings.Join(task.Notices, "\n")
	for _, want := range []string{`variable "PATH" of environment/Dockerfile is ignored`, `user "agent" of environment/Dockerfile`, "environment/.dockerignore is ignored"} {
		if !strings.Contains(said, want) {
			t.Errorf("notices %q, want %q", said, want)
		}
	}
	files["environment/sub/f"] = "g"
	again, err := Load([]string{taskFolder(t, files)}, Allow{Build: true, Network: true})
	if err != nil || again[0].Image == task.Image || !Builds(again)[0].Network {
		t.Errorf("%v: a changed file makes the image %q", err, again[0].Image)
	}
	// With docker_image nothing is built, but the Dockerfile says where the work is.
	files["task.toml"] = "[environment]\ndocker_image = \"made\"\n"
	made, err := Load([]string{taskFolder(t, files)}, Allow{})
	if err != nil || made[0].Image != "made" || made[0].Workdir != "/srv/app" || len(Builds(made)) != 0 {
		t.Errorf("%v: %+v", err, made)
	}
	for text, want := range map[string]string{"ARG X\nFROM $X\nRUN true\n": "FROM $X, a variable", "RUN true\n": "no FROM"} {
		files["task.toml"], files["environment/Dockerfile"] = "", text
		if _, err := Load([]string{taskFolder(t, files)}, Allow{Build: true}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// What task folders have elsewhere and is harmless is read, and told.
func TestFolderOddities(t *testing.T) {
	dir := taskFolder(t, map[string]string{
		"task.toml":     "\uFEFFversion = \"1.0\"\r\n[environment]\r\ndocker_image = \"img\"\r\n[environment.env]\r\nMODE = \"${MODE:-fast} ${X:-}end\"\r\n[verifier.env]\r\nA = \"${B:-${C}}\"\r\n",
		"tests/test.sh": "true\r\n",
	})
	if _, err := Load([]string{dir}, Allow{}); err == nil || !strings.Contains(err.Error(), "variable A") {
		t.Errorf("a default that is the host's: %v", err)
	}
	dir = taskFolder(t, map[string]string{
		"task.toml":     "\uFEFFversion = \"1.0\"\r\n[environment]\r\ndocker_image = \"img\"\r\n[environment.env]\r\nMODE = \"${MODE:-fast} ${X:-}end\"\r\n",
		"tests/test.sh": "true\r\n",
	})
	tasks, err := Load([]string{dir}, Allow{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(tasks[0].Env, ",") != "MODE=fast end" {
		t.Errorf("environment %q", tasks[0].Env)
	}
	said := strings.Join(tasks[0].Notices, "\n")
	for _, want := range []string{"variable MODE has its default", "tests/test.sh has lines that end with CR and LF"} {
		if !strings.Contains(said, want) {
			t.Errorf("notices %q, want %q", said, want)
		}
	}
}

// Folders of tasks may be in folders, and those may have other things, too.
func TestFoldersBelow(t *testing.T) {
	dir := taskFolder(t, map[string]string{
		"README.md": "x", "docs/a/b/c": "x", ".git/x/task.toml": "x",
		"easy/one/task.toml": "[environment]\ndocker_image = \"x\"\nskills_dir = \"/s\"\ngpu_types = []\n", "easy/one/tests/test.sh": "true\n",
		"easy/one/environment/data/in.txt": "1", "easy/one/solution/answer.md": "x",
	})
	if err := os.Symlink("docs", filepath.Join(dir, "more")); err != nil {
		t.Fatal(err)
	}
	tasks, err := Load([]string{dir}, Allow{})
	if err != nil || len(tasks) != 1 || tasks[0].ID != "one" {
		t.Fatalf("%+v, %v", tasks, err)
	}
	if list := tasks[0].Files; len(list) != 1 || list[0].Path != "/app/data/in.txt" {
		t.Errorf("files %+v", list)
	}
	said := strings.Join(tasks[0].Notices, "\n")
	for _, want := range []string{"skills_dir", "no instruction.md", "solution/ is ignored"} {
		if !strings.Contains(said, want) {
			t.Errorf("notices %q, want %q", said, want)
		}
	}
	if strings.Contains(said, "unknown") {
		t.Errorf("notices %q", said)
	}
	if err := os.Symlink("easy/one", filepath.Join(dir, "two")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load([]string{dir}, Allow{}); err == nil || !strings.Contains(err.Error(), `two" is a link`) {
		t.Errorf("a task that is a link: %v", err)
	}
}

// A file directly below the root can be made in a writable root only.
func TestArtifactInTheRoot(t *testing.T) {
	for path, want := range map[string]bool{"/out.json": true, "/out": false} {
		dir := taskFolder(t, map[string]string{"task.toml": "artifacts = [\"" + path + "\"]\n[environment]\ndocker_image = \"x\"\n", "tests/test.sh": "true\n"})
		tasks, err := Load([]string{dir}, Allow{})
		if err != nil || tasks[0].Root != want {
			t.Errorf("%s: %+v, %v", path, tasks, err)
		}
	}
}
