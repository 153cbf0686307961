"""Words that carry a question or a sentence but not its subject, English and Chinese."""

from __future__ import annotations

_ENGLISH = """
a about above across after again against ain't all almost along already also although always am among an and another any
anybody anyone anything anyway are aren't around as at be became because become been before being below between both but
by can can't cannot could couldn't did didn't do does doesn't doing don't done down during each either else ever every
everybody everyone everything few for from further get gets getting got had hadn't has hasn't have haven't having he her
here hers herself hey hi him himself his how however i if in into is isn't it its itself just let many maybe me might
mine more most much must mustn't my myself neither no nobody none nor not nothing now of off often oh ok okay on once
only onto or other others otherwise ought our ours ourselves out over own per perhaps please quite rather really same
shall shan't she should shouldn't since so some somebody someone something sometimes somewhere soon still such than that
the their theirs them themselves then there therefore these they this those though through thus to together too toward
towards under unless until up upon us usually very via was wasn't we well were weren't what whatever when whenever where
wherever whether which whichever while who whoever whom whose why will with within without won't would wouldn't yeah yes
yet you your yours yourself yourselves im ive youre theyre thats whats
"""

_CHINESE = """
的 了 着 过 地 得 之 所 者 们 么 吗 呢 吧 啊 呀 哦 哈 嗯 哎 唉 嘛 啦 喔 咯 哇 呗 是 不是 是不是 就是 还是 也是
都是 只是 要是 而是 于是 我 你 您 他 她 它 我们 你们 您们 他们 她们 它们 咱 咱们 别人 人家 本人 某 某个 某些 俺
我的 你的 他的 她的 它的 这 那 这个 那个 这些 那些 这里 那里 这儿 那儿 这样 那样 这么 那么 这种 那种 这边 那边
此 其 该 各 每 每个 各个 另 另外 其他 其它 其实 其中 什么 什麼 甚么 啥 谁 誰 哪 哪个 哪些 哪里 哪裡 哪儿 哪位
哪种 哪天 几 几个 多少 多久 多大 多长 怎 怎么 怎麼 怎样 怎么样 怎麼樣 怎么办 如何 为何 为什么 為什麼 何时 何
何处 什么时候 时候 什么样 什么地方 几点 几时 有没有 能不能 会不会 可不可以 是否 要不要 对不对 好不好 在 于 从
由 自 自从 到 向 往 对于 关于 至于 把 被 给 让 使 跟 和 与 及 以及 同 或 或者 比 按 按照 根据 通过 随着 为 为了
因 因为 所以 因此 由于 但 但是 不过 然而 可是 却 而 而且 并 并且 且 虽然 尽管 即使 如果 假如 若 的话 只要 只有
除了 除非 无论 不管 不但 不仅 既 则 然后 接着 否则 以 以便 不 没 没有 别 未 无 非 也 都 还 又 再 就 才 只 很 太
更 最 挺 非常 十分 比较 相当 有点 有些 一些 一点 一下 一个 一种 一样 一直 一定 已 已经 曾 曾经 正 正在 将 将要
刚 刚刚 刚才 马上 常 常常 经常 总 总是 往往 可能 也许 大概 应该 必须 需 能 能够 会 可 可以 要 想要 有 没什么 上
下 里 中 内 外 前 后 之前 之后 以前 以后 时 个 些 次 种 位 来 去 出 起来 出来 下来 上来 下去 过来 过去 请 请问
告诉 好的 嗯嗯 是的 等 等等 之类 左右 上下 甚至 尤其 究竟 到底 居然 竟然 反正 难道 們 這 這個 這些 這裡 那裡 個
嗎 為 為了 會 對 還 從 讓 給 與 後 過 们的 二者 两者 呃 喂 呵呵 哈哈 我們 你們 他們 她們 誰的 谁的
"""

STOP_WORDS: frozenset[str] = frozenset(_ENGLISH.split()) | frozenset(_CHINESE.split())
"""Generic function and question words. "may" is missing, because a month must stay findable."""
