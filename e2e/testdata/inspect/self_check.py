"""Cases as inspect_ai's self_check.py has them, in our words: that file is not ours."""

from inspect_ai.util import OutputLimitExceededError
from inspect_ai.util._sandbox.limits import override_max_read_file_size


async def self_check(env):
    results = {"test_exec_as_user": "refused"}
    for case in (exec_, stdin, files, elsewhere, limits, timeout, refused):
        try:
            await case(env)
            results[case.__name__] = True
        except BaseException as e:
            results[case.__name__] = repr(e)
    return results


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


async def raises(kind, awaited, says=""):
    try:
        await awaited
    except kind as e:
        assert says in str(e), e
    else:
        raise AssertionError(f"no {kind.__name__}")


async def exec_(env):
    r = await env.exec(["sh", "-c", 'echo "$A b"; echo é >&2; exit 70'], env={"A": "'a'"}, cwd="/tmp")
    same((r.success, r.returncode, r.stdout, r.stderr), (False, 70, "'a' b\n", "é\n"))
    same((await env.exec(["printf", "%s", "a\n$(x) 'y'"])).stdout, "a\n$(x) 'y'")


async def stdin(env):
    same((await env.exec(["cat"], input="")).stdout, "")
    same((await env.exec(["wc", "-c"], input=b"\x00" * (20 << 20))).stdout.strip(), str(20 << 20))
    same((await env.exec(["true"], input="x" * (20 << 20))).returncode, 0)


async def files(env):
    for name, content in (("a b/c.txt", "x\r\n✨"), ("b", b"\xc3\x28\x00"), ("empty", "")):
        await env.write_file(name, content)
        same(await env.read_file(name, text=isinstance(content, str)), content)
    await raises(FileNotFoundError, env.read_file("none"), "none")
    await raises(IsADirectoryError, env.read_file("a b"), "directory")
    await raises(IsADirectoryError, env.write_file("a b", "x"), "directory")
    await env.exec(["chmod", "0", "b"])
    await raises(PermissionError, env.read_file("b"), "b")
    await raises(PermissionError, env.write_file("b", "x"), "b")


async def elsewhere(env):
    await env.write_file("/tmp/d/f", b"\xff")
    same(await env.read_file("/tmp/d/f", text=False), b"\xff")
    await raises(PermissionError, env.write_file("/etc/x/y", "x"))


async def limits(env):
    await env.write_file("large", "a" * 2048)
    with override_max_read_file_size(1024):
        await raises(OutputLimitExceededError, env.read_file("large"))
    await raises(OutputLimitExceededError, env.exec(["head", "-c", str(30 << 20), "/dev/zero"]))


async def timeout(env):
    await env.write_file("stays", "x")
    await raises(TimeoutError, env.exec(["sh", "-c", "sleep 1000 & sleep 1001"], timeout=1))
    same((await env.exec(["sh", "-c", "ps aux | grep 'sleep 100' | grep -v grep"])).stdout, "")
    same(await env.read_file("stays"), "x")


async def refused(env):
    r = await env.exec(["id"], user="root")
    assert not r.success and "root" in r.stderr, r
    r = await env.exec(["id"], user="no-such-user")
    assert not r.success and "no-such-user" in r.stderr, r
    await raises(PermissionError, env.exec(["/etc/passwd"]))
