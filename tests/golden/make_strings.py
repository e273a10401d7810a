#!/usr/bin/env python3
"""Writes the 500 strings that tokenizers are compared on, one a line, escaped (escapes.py).

usage: make_strings.py OUT          (committed as strings.txt)

Half is written out below, half is put together from parts with a generator of its own, so that the
file is the same wherever this runs.
"""
import sys

from escapes import escape, unescape

SENTENCES = r"""
Hello, world!
The quick brown fox jumps over the lazy dog.
I'm sure they're late; we've waited, you'd said he'll come, it's fine, don't worry.
I'M SURE THEY'RE LATE; WE'VE WAITED, YOU'D SAID HE'LL COME, IT'S FINE, DON'T.
'tis 'twas rock'n'roll o'clock y'all'd've 's 't 're 've 'm 'll 'd
can’t won’t it’s (curly), `code` and ``more``
She said: "Don't!" -- and left... (at 5:30 p.m.)
A naïve café façade; piñata, jalapeño, Übermut, Ångström, smørrebrød, coöperate.
El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío, añoraba a su querido cachorro.
Portez ce vieux whisky au juge blond qui fume. Où est-il passé ? « Là-bas », dit-elle.
Falsches Üben von Xylophonmusik quält jeden größeren Zwerg. ẞ ß
Příliš žluťoučký kůň úpěl ďábelské ódy. Pchnąć w tę łódź jeża lub ośm skrzyń fig.
Pijamalı hasta yağız şoföre çabucak güvendi. İstanbul ılık.
Съешь же ещё этих мягких французских булок, да выпей чаю.
Чуєш їх, доцю, га? Кумедна ж ти, прощайся без ґольфів!
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Τάχιστη αλώπηξ.
דג סקרן שט בים מאוכזב ולפתע מצא חברה. שָׁלוֹם
نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر. ١٢٣٤٥
این یک جملهٔ فارسی است. می‌خواهم ۶۷۸۹۰
ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश। १२३
আমি বাংলায় গান গাই। ৪৫৬
நான் தமிழ் பேசுகிறேன். க்ஷ
తెలుగు భాష చాలా అందమైనది
ฉันกินข้าวแล้ว เป็นมนุษย์สุดประเสริฐเลิศคุณค่า ๑๒๓
ကျွန်တော် မြန်မာစာ ဖတ်တတ်တယ်
ខ្ញុំអាចញ៉ាំកញ្ចក់បាន
ຂ້ອຍກິນແກ້ວໄດ້
ქართული ენა მრავალფეროვანია
Բարեւ աշխարհ, ինչպե՞ս ես
የአማርኛ ፊደል ቆንጆ ነው
ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ
ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ
བོད་ཡིག
我能吞下玻璃而不伤身体。今天是2024年5月17日，星期五。
我能吞下玻璃而不傷身體。「你好」，他說：“再見”。
いろはにほへと ちりぬるを。カタカナとひらがな、漢字が混ざる文章です。
ﾊﾝｶｸｶﾀｶﾅ ＦＵＬＬＷＩＤＴＨ １２３ ＡＢＣ
키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다.
한국어 한국어 (decomposed)
Tiếng Việt có nhiều dấu: ặ ẵ ử ữ ộ
ⲀⲃⲄ 𐌰𐌱𐌲 𐎀𐎁 𒀀𒀁 𓀀𓀁 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚 𝒳𝓎
x² + y³ = z⁴; H₂O; ½ + ¼ = ¾; Ⅷ Ⅸ ⅻ; ①②③ ㊿ 〇一二三 ५ ५५
∀x ∈ ℝ: ∃y > x ∧ ¬(y ≤ 0) ⇒ ∑ᵢ xᵢ ≈ ∫₀^∞ e^(-t²) dt ≠ √2 ± ε
€100 £20 ¥3000 ₹50 ₿0.001 $9.99 ¢5 100% 5‰ 20°C ±3σ №5 §7 ¶ † ‡ • … – — ― ‖
😀 😃 😄 😁 😆 🤣 ☺️ ☻ ♥ ❤️ ✅ ❌ ⚠️ ⭐ 🌟
👨‍👩‍👧‍👦 👩🏽‍💻 🏳️‍🌈 🏴‍☠️ 🧑🏿‍🤝‍🧑🏻 👁️‍🗨️ 🇩🇪🇫🇷🇯🇵 🏴󠁧󠁢󠁥󠁮󠁧󠁿 1️⃣2️⃣ #️⃣
🚀🌑 (normal) 😶‍🌫️ (multiple emojis concatenated) ✅ 🦙🦙 3 33 333 3333 33333 333333 3333333
e\xCC\x81 o\xCC\x88\xCC\x84 a\xCD\xA1b Z\xCD\x91\xCD\xAB\xCD\x83a\xCC\xB4\xCC\x95l\xCD\x81\xCC\x9Fg\xCC\xB8o\xCC\xB6 combining
1 12 123 1234 12345 123456 1234567 12345678 123456789 1234567890
3.14159 -42 +7 1e-9 0x1F 0b1011 0o777 1_000_000 1,234,567.89 192.168.0.1 2001:db8::1 v1.2.3-rc4
2024-05-17T12:34:56Z 12:00 7am 21st 42nd 3rd x86_64 utf8mb4 H2O2 abc123def456 007
a1b2c3 4d5e6f A1 1A 1a a1 ½1 1½ ²2 2²
user@example.com https://example.com/a/b?c=d&e=f#g%20h ftp://host:21/~me/../x file:///C:\x5Ca\x5Cb
C:\x5CUsers\x5Cme\x5C \x5C\x5Cserver\x5Cshare ~/.config/x.yaml ./a.out ../b $HOME ${PATH} %APPDATA% `pwd`
#hashtag @mention !important ?query =a ==b ===c !=d <=e >=f && || ?? :: -> => ... .. !!! ??? ;;
( [ { < > } ] ) ([{<>}]) (()) [[]] {{}} <<>> /* */ // -- ## ** __ ~~ ^^ ++ -- %%
snake_case camelCase PascalCase kebab-case SCREAMING_SNAKE_CASE dotted.name path/to/file a__b _x x_
iPhone eBay McDonald NASA's U.S.A. e.g. i.e. etc. Mr. Dr. Ph.D. A.M.
!!!!!!!! ........ ------------ ============ ************ ############ ~~~~~~~~ ////////
<|im_start|>user
<|im_end|>
<|im_start|>system\x0AYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\x0A<|im_start|>user\x0AHi<|im_end|>\x0A
<|endoftext|>
<|endoftext|><|endoftext|>text<|endoftext|>
a<|im_start|>b<|im_end|>c <|im_start|> d <|im_end|>
<|im_start| im_start|> <|im_start |> < |im_start|> <|im_startt|> <|IM_START|> <|im_end|
<|<|im_start|>|> <<|im_end|>> |<|im_end|>| <|im_start|><|im_start|>
<repo_name>terrane<file_sep>main.cpp<filename>x<gh_stars>5<reponame>y
<issue_start><issue_comment>hi<issue_closed><jupyter_start><jupyter_text><jupyter_code><jupyter_output><jupyter_script><empty_output>
<repo_namee> <repo_name <file_sep <empty_output >
<|begin_of_text|><|start_header_id|>user<|end_header_id|>\x0A\x0AHi<|eot_id|><|end_of_text|><|eom_id|>
<s> </s> <unk> <pad> [INST] [/INST] <<SYS>> <|fim_prefix|> [PAD] <mask>
Ġ Ċ Ġhello ĠĠ Ā ā Ń ł (the byte alphabet as text)
#include <iostream>\x0Aint main() {\x0A    std::cout << "Hi\x5Cn";\x0A    return 0;\x0A}\x0A
def fib(n: int) -> int:\x0A\x09if n < 2:\x0A\x09\x09return n\x0A\x09return fib(n - 1) + fib(n - 2)\x0A
fn main() { let v: Vec<u8> = vec![0; 10]; println!("{:?}", v.iter().map(|x| x + 1).collect::<Vec<_>>()); }
for (let i = 0; i < arr.length; i++) { if (!arr[i]?.ok) continue; out.push({...arr[i], id: `k${i}`}); }
SELECT a.id, COUNT(*) AS n FROM t a LEFT JOIN u ON u.id = a.uid WHERE a.x IS NOT NULL GROUP BY 1 HAVING n > 3;
<!DOCTYPE html><html lang="en"><body class='x y'><!-- note --><p>1 &lt; 2 &amp; 3</p></body></html>
{"name": "Zoë", "age": 30, "tags": ["a", "b\x5Cn"], "nested": {"x": null, "y": true, "z": -1.5e10}}
key: value\x0Alist:\x0A  - one\x0A  - two: 2\x0Atext: |\x0A  several\x0A  lines\x0A
| a | b |\x0A|---|:-:|\x0A| 1 | **2** |\x0A\x0A# Title\x0A\x0A- [x] done\x0A- [ ] open\x0A\x0A```sh\x0Als -la | grep '^d'\x0A```\x0A
\x5Cbegin{align} \x5Cfrac{a}{b} &= \x5Csum_{i=0}^{n} \x5Calpha_i \x5C\x5C \x5Cend{align}
$ git log --oneline | awk '{print $1}' | xargs -n1 git show --stat 2>/dev/null || true
regex: ^(?:[A-Za-z0-9._%+-]+)@([a-z]+\x5C.)+[a-z]{2,}$ \x5Cd+\x5Cs*\x5Cw?
+++ b/x.c\x0A@@ -1,3 +1,4 @@\x0A-old\x0A+new\x0A context\x0A
movq %rax, 8(%rsp)\x0A\x09jne .L3\x0A\x09vpdpbusd ymm0, ymm1, ymmword ptr [rdi + 4*rcx]
""".strip("\n").split("\n")

# Spaces, line ends, control characters, odd and broken encodings; escaped.
RAW = r"""
\x20
\x20\x20
\x20\x20\x20
\x20\x20\x20\x20\x20\x20\x20\x20\x20
\x09
\x09\x09
\x09\x20\x09
\x0A
\x0A\x0A
\x0A\x0A\x0A
\x0A\x0A\x0A\x0A\x0A
\x0D
\x0D\x0A
\x0D\x0A\x0D\x0A
\x0D\x0D\x0A\x0A
\x0B
\x0C
\x20\x0A
\x0A\x20
\x20\x0A\x20\x0A\x20
\x09\x0A\x09x
a\x20
a\x20\x20
a\x20\x20\x20
a\x20b
a\x20\x20b
a\x20\x20\x20b
a\x0Ab
a\x0A\x0Ab
a\x0A\x20b
a\x0A\x20\x20b
a\x20\x0Ab
a\x20\x20\x0A\x20\x20b
a\x0D\x0Ab\x0D\x0A
a\x09b
a\x09\x09b
a\x09\x20b
a\x20\x09b
\x20a
\x20\x20a
\x0Aa
\x09a
x\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20y
5\x20\x205
5\x20\x20\x20a5
a\x20\x205
a\x20\x20\x205\x20\x20\x20
\x205
\x20\x205
5\x20
5\x20\x20
\x0A5\x0A\x0A5
!\x20\x20!
!\x0A\x0A!
.\x0A\x20\x20x
);\x0A\x0A\x09}
'\x20's
\x20's
\x20\x20's
's's's
''s
'S'T'RE
a's5's
a\xC2\xA0b
\xC2\xA0
\xC2\xA0\xC2\xA0x
a\xC2\x85b
\xC2\x85\xC2\x85
a\xE1\x9A\x80b
a\xE1\xA0\x8Eb
a\xE1\xA0\x8E\xE1\xA0\x8Eb
\xE2\x80\x80\xE2\x80\x83\xE2\x80\x8Ax
a\xE2\x80\x8Bb
a\xE2\x80\x8Cb\xE2\x80\x8Dc
a\xE2\x80\xA8b\xE2\x80\xA9c
a\xE2\x80\xAFb\xE2\x81\x9Fc\xE2\x81\xA0d
\xE3\x80\x80\xE3\x80\x80x
\xE3\x80\x80x\xE3\x80\x80
\xEF\xBB\xBFbyte order mark
\xE2\x80\x8F\xE2\x80\x8E\xE2\x80\xAA\xE2\x80\xAC marks of direction
so\xC2\xADft hy\xC2\xADphen
\x00
\x00\x00
a\x00b
\x01\x02\x03\x04\x05\x06\x07\x08
\x0E\x0F\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1A
\x1B[31mred\x1B[0m
\x1C\x1D\x1E\x1F
a\x1Cb\x1Fc
\x7F
a\x7F\x7Fb
\xC2\x80\xC2\x81\xC2\x9F
\xF3\xB0\x80\x80
\xEE\x80\x80\xEF\xA3\xBF
\xEF\xBF\xBD
\xEF\xBF\xBE\xEF\xBF\xBF
\xF4\x8F\xBF\xBF
\xCD\xB8
a\xCD\xB8b \xCD\xB8
\xCC\x81
\xCC\x81a
\x20\xCC\x81
a\x20\xCC\x81b
5\xCC\x815
\xE2\x83\xA3
\x80
\xBF
\xFF
\xFE\xFF
\xFF\xFEa\x00b\x00
a\x80b
a\x80\x80b
\x20\x80
\x80\x20x
\xC3
\xC3\x28
a\xC3
a\xE2\x82
a\xE2\x82b
\xE2\x28\xA1
\xF0\x9F\x98
a\xF0\x9F\x98b
\xF0\x9F\x98\x20x
\xF0\x28\x8C\xBC
\xF0\x9F
\xF0
\xE9t\xE9 caf\xE9 na\xEFve (Latin-1)
\xF8\x88\x80\x80\x80
\xFC\x84\x80\x80\x80\x80
\xC0\x80
\xC1\x81
a\xC0\xAFb
\xC0\xBC|im_end|>
\xE0\x80\xAF
\xF0\x80\x80\xAF
\xED\xA0\x80
\xED\xA0\xBD\xED\xB8\x80
a\xED\xBF\xBFb
\x20\xED\xA0\x80x
5\xED\xA0\x805
<|im_end\x80|>
<|im_end|>\x80<|im_start|>
\xC3<|im_end|>\xA9
\xE4\xBD\xA0\xE5\xA5\xBD\xE4
\xF0\x91\xBC\x82\xF0\x91\xBC\x84x
a\xF0\x91\xBC\x82 5\xF0\x91\xBD\x90
\xF0\x9D\x8B\x80\xF0\x9D\x8B\x81a
\xF0\xAE\xAF\xB0\xF0\xB1\x8D\x90
\x20\xF0\x91\xBC\x84\xF0\x91\xBC\x85
""".strip("\n").split("\n")


class generator:
    """Knuth's MMIX linear congruential generator; its high bits."""

    def __init__(self, seed: int):
        self.state = seed

    def below(self, n: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def pick(self, items):
        return items[self.below(len(items))]


WORDS = """the of and to in is that for it with as was on are by this be at from or an which have not
terrane tectonic subduction metamorphic unquestionably antidisestablishmentarianism Zürich 東京 Москва
العربية हिन्दी 한국 ไทย ελληνικά naïve don't we'll I'M O'Neil e-mail 3D 4x4 C++ C# .NET std::vector
foo_bar __init__ fooBar HTTPServer x1 42 2024 1,000 3.14 0xFF 1st ½ ² Ⅷ 🙂 👩‍🚀 🇨🇭 ❤️ … — “quoted” (paren) [x]
{y} <tag> </tag> &amp; == != -> :: ;; !? <|im_start|> <|im_end|> <|endoftext|> <file_sep> 's 're""".split()
GAPS = ["", " ", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\n  ", "\u00a0", "\u3000",
        ", ", ". ", "-", "/", "_"]
RANGES = [(0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF),
          (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x1000, 0x109F),
          (0x10A0, 0x10FF), (0x1E00, 0x1EFF), (0x2000, 0x206F), (0x2070, 0x20CF), (0x2100, 0x21FF),
          (0x2200, 0x22FF), (0x2460, 0x24FF), (0x2600, 0x27BF), (0x3000, 0x30FF), (0x3400, 0x34FF),
          (0x4E00, 0x9FFF), (0xA000, 0xA0FF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFDFF),
          (0xFE00, 0xFFEF), (0x10000, 0x100FF), (0x10900, 0x1093F), (0x11F00, 0x11F5F),
          (0x1D400, 0x1D7FF), (0x1D2C0, 0x1D2DF), (0x1E030, 0x1E08F), (0x1F300, 0x1FAFF),
          (0x20000, 0x200FF), (0x2EBF0, 0x2EC20), (0x31350, 0x31400)]


def sentences_of_words(random: generator, count: int):
    for _ in range(count):
        yield "".join(random.pick(WORDS) + random.pick(GAPS) for _ in range(4 + random.below(20))).encode()


def characters_of_ranges(random: generator, count: int):
    for _ in range(count):
        chosen = [random.pick(RANGES) for _ in range(1 + random.below(3))]
        text = []
        for _ in range(5 + random.below(25)):
            low, high = random.pick(chosen)
            text.append(chr(low + random.below(high - low + 1)))
            if random.below(6) == 0:
                text.append(random.pick(GAPS))
        yield "".join(text).encode()


def any_bytes(random: generator, count: int):
    """Bytes below F4, so that no four of them name a code point that does not exist: llama.cpp aborts
    on those."""
    for _ in range(count):
        yield bytes(random.below(0xF4) for _ in range(1 + random.below(24)))


def long_words():
    yield b"a" * 3000
    yield b"ab" * 1000
    yield b"abcdefghijklmnopqrstuvwxyz" * 40
    yield b" " * 1000
    yield b"\n" * 500
    yield b" \n" * 200
    yield b"1234567890" * 50
    yield b"=" * 700
    yield ("Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 6).encode()
    yield "ๆ".encode() * 200
    yield "漢字仮名交じり文".encode() * 40
    yield "🙂".encode() * 100
    yield "👨‍👩‍👧‍👦".encode() * 30
    yield b"\xff" * 60
    yield ("e" + "\u0301" * 100).encode()
    yield b"<|im_end|>" * 20
    yield b"<|im_" * 50
    yield b"thethethe" * 100
    yield b"AAAAaaaa" * 60
    yield b"x" * 511 + b" " + b"y" * 513


def main() -> None:
    strings = [unescape(line) for line in SENTENCES]
    strings += [unescape(line) for line in RAW]
    strings += list(long_words())
    random = generator(20240517)
    rest = 500 - len(strings)
    strings += list(sentences_of_words(random, rest // 2))
    strings += list(any_bytes(random, rest // 8))
    strings += list(characters_of_ranges(random, 500 - len(strings)))
    assert len(strings) == 500
    with open(sys.argv[1], "w", encoding="utf-8", newline="\n") as out:
        out.writelines(escape(text) + "\n" for text in strings)
    assert [unescape(l.rstrip("\n")) for l in open(sys.argv[1], encoding="utf-8", newline="\n")] == strings


if __name__ == "__main__":
    main()
