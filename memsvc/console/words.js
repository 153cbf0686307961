// The words of the console in English and Chinese. A key that has no words is shown as it is.

const WORDS = {
  // Navigation
  overview: ["Overview", "概览"], memories: ["Memories", "记忆"], search: ["Search", "搜索"],
  review: ["Review", "审核"], checkpoints: ["Checkpoints", "检查点"], sessions: ["Sessions", "会话"],
  context: ["Context", "上下文"], files: ["Files", "文件"], maintenance: ["Maintenance", "维护"], live: ["Live", "实时"],
  skip: ["Skip to content", "跳到内容"], user: ["User", "用户"], project: ["Project", "项目"], key: ["API key", "API 密钥"],
  apply: ["Apply", "应用"], language: ["中文", "English"], theme: ["Theme", "主题"], choose_user: ["Name a user to see memories.", "请先填写用户。"],
  unreachable: ["The service does not answer.", "服务没有响应。"], key_needed: ["This service needs an API key.", "此服务需要 API 密钥。"], scope: ["Scope", "范围"], known_users: ["Users", "用户列表"],
  // Common
  loading: ["Loading…", "加载中…"], none: ["Nothing here.", "暂无内容。"], more: ["More", "更多"], open: ["Open", "打开"], close: ["Close", "关闭"],
  save: ["Save", "保存"], cancel: ["Cancel", "取消"], edit: ["Edit", "编辑"], remove: ["Delete", "删除"], restore: ["Restore", "恢复"],
  archive: ["Archive", "归档"], supersede: ["Supersede", "取代"], rollback: ["Roll back", "回滚"], confirm: ["Confirm", "确认"], undo: ["Undo", "撤销"],
  purge: ["Delete for good", "永久删除"], create: ["Create", "新建"], refresh: ["Refresh", "刷新"], done: ["Done.", "完成。"], stop: ["Stop", "停止"], start: ["Start", "开始"],
  content: ["Content", "内容"], kind: ["Kind", "类型"], layer: ["Layer", "层"], status: ["Status", "状态"], tags: ["Tags", "标签"], importance: ["Importance", "重要性"],
  updated: ["Updated", "更新"], created: ["Created", "创建"], title: ["Title", "标题"], name: ["Name", "名称"], note: ["Note", "备注"], any: ["any", "不限"], query: ["Query", "查询"],
  fields: ["All fields", "全部字段"], revision: ["Revision", "修订"], revisions: ["Revisions", "修订历史"], changed: ["Changed", "变化"], chain: ["Chain of successors", "取代链"],
  related: ["Related", "相关"], provenance: ["Provenance", "来源"], conflicts: ["Conflicts", "冲突"], before: ["Before", "之前"], after: ["After", "之后"], sort: ["Sort", "排序"],
  // Overview
  counts: ["Memories by status", "按状态统计"], by_layer: ["By layer", "按层统计"], by_kind: ["By kind", "按类型统计"], growth: ["New memories of the last 30 days", "最近 30 天新增"],
  health: ["Health", "健康"], healthy: ["Healthy", "正常"], unhealthy: ["Not healthy", "异常"], slow: ["Slowest operations", "最慢的操作"], latency: ["Latency by method", "各方法延迟"],
  warnings: ["Warnings", "警告"], backends: ["Backends", "后端"], indexes: ["Indexes", "索引"], total: ["Memories", "记忆总数"], storage: ["Storage", "存储"], pending: ["Waiting for the indexes", "待索引"], version: ["Version", "版本"],
  calls: ["Calls", "调用"], errors: ["Errors", "错误"], no_admin: ["The health of the service needs an admin key.", "查看服务健康需要管理员密钥。"],
  // Search
  mode: ["Mode", "模式"], as_of: ["As of", "时间点"], now: ["now", "现在"], days_ago: ["days ago", "天前"], relevance: ["Relevance", "相关度"], score: ["Score", "得分"], ranks: ["How it was ranked", "排序过程"],
  timings: ["Time of each stage", "各阶段耗时"], nothing_relevant: ["Nothing relevant was found; these are the nearest.", "没有相关内容，以下为最接近的。"], degraded: ["Incomplete", "结果不完整"], retriever: ["Retriever", "检索器"], rank: ["Rank", "名次"], raw: ["Raw score", "原始分"], share: ["Share", "份额"], boosts: ["Boosts and cues", "加成与线索"], fused: ["Fused score", "融合得分"],
  archived_hits: ["Archived memories that fit", "符合的已归档记忆"], candidates: ["candidates", "个候选"], judged: ["Currency", "时效"], newer: ["newer", "较新"], older: ["older", "较旧"],
  // Review
  confirm_newer: ["Newer holds", "以较新为准"], reject_newer: ["Older holds", "以较旧为准"], keep_both: ["Keep both", "都保留"], quarantine: ["Quarantine", "隔离区"], approve: ["Approve", "通过"], reject: ["Reject", "拒绝"],
  reminders: ["Reminders", "提醒"], due: ["Due", "到期"], overdue: ["overdue", "已逾期"], acknowledge: ["Acknowledge", "标记已提醒"], days_ahead: ["Days ahead", "提前天数"],
  // Checkpoints
  sure_rollback: ["Roll back: change {0}, delete {1}, restore {2}?", "回滚：更改 {0}、删除 {1}、恢复 {2} 条？"],
  differences: ["Differences since then", "此后的变化"], preview_rollback: ["Preview roll back", "预览回滚"], would_change: ["Would change {0}, delete {1}, restore {2}.", "将更改 {0}、删除 {1}、恢复 {2} 条。"], rolled_back: ["Changed {0}, deleted {1}, restored {2}. Undo with checkpoint {3}.", "已更改 {0}、删除 {1}、恢复 {2} 条；可用检查点 {3} 撤销。"],
  // Sessions, context, files
  messages: ["Messages", "消息"], tokens: ["Tokens", "令牌"], state: ["State", "状态"], role: ["Role", "角色"], budget: ["Budget (tokens)", "预算（令牌）"], build: ["Build", "生成"], sections: ["Sections", "分区"], left_out: ["Left out", "未收录"], reason: ["Reason", "原因"], text: ["Text", "文本"], items: ["Items", "条目"], size: ["Size", "大小"], category: ["Category", "类别"], media_type: ["Type", "类型"], missing: ["content missing", "内容缺失"],
  // Maintenance
  dry_run: ["Dry run", "试运行"], run: ["Run", "运行"], step: ["Step", "步骤"], changes: ["Changes", "变更"], export: ["Export the user", "导出用户"], import: ["Import memories", "导入记忆"], erase: ["Erase the user", "清除用户"], erase_preview: ["What would be erased", "将被清除的内容"], erase_confirm: ["Type the user id to erase everything for good", "输入用户 ID 以永久清除"], receipt: ["Receipt", "回执"], clean: ["Nothing of the user is left.", "用户数据已全部清除。"], not_clean: ["Something is left; see the stores.", "仍有残留，请查看存储。"], store: ["Store", "存储"], removed: ["Removed", "已删除"], remaining: ["Remaining", "剩余"], exported: ["{0} records exported.", "已导出 {0} 条记录。"], import_hint: ["A file of JSON Lines, each with at least content.", "JSON Lines 文件，每行至少包含 content。"], imported: ["{0} stored, {1} refused.", "已存 {0} 条，拒绝 {1} 条。"],
  download: ["Download", "下载"], line: ["Line {0}", "第 {0} 行"], no_object: ["is no JSON object", "不是 JSON 对象"], is_export: ["This is an export of a user: import it with memsvc import-user.", "这是用户导出文件，请用 memsvc import-user 导入。"], more_lines: ["and {0} more lines", "另有 {0} 行"],
  duration: ["Duration", "耗时"], growth_cut: ["The newest {0} memories are counted.", "仅统计最新的 {0} 条记忆。"], method: ["Method", "方法"], operation: ["Operation", "操作"], point: ["Measured at", "测量点"],
  // Administration
  admin: ["Administration", "管理"], admin_only: ["Administration needs an admin key.", "管理需要管理员密钥。"], keys: ["API keys", "API 密钥"], new_key: ["New key", "新建密钥"], tenant: ["Tenant", "租户"], users: ["Users", "用户"], projects: ["Projects", "项目"], comma: ["separated by commas; empty: all", "以逗号分隔，留空表示全部"],
  days_valid: ["Days valid (empty: no end)", "有效天数（留空为不过期）"], expires: ["Expires", "过期时间"], revoke: ["Revoke", "吊销"], ended_too: ["Also ended keys", "包括已失效的密钥"], secret_once: ["The secret of the key. It is shown only now: copy it.", "密钥内容仅显示这一次，请复制保存。"], first_key: ["There is no key yet. Once there is one, every call needs a key, also those of this page.", "目前没有密钥。一旦创建，所有调用（包括本页面）都需要密钥。"],
  quotas: ["Quotas", "配额"], subject: ["Subject", "对象"], calls_per_second: ["Calls per second", "每秒调用数"], content_bytes: ["Content (bytes)", "内容（字节）"], file_bytes: ["Files (bytes)", "文件（字节）"], quota_hint: ["0: no limit. A quota without limits is removed.", "0 表示不限；没有任何限制的配额会被移除。"], of: ["{0} of {1}", "{0} / {1}"], unnamed: ["without a name", "未命名"], set: ["Set", "设置"],
  dead_letters: ["Webhooks: dead letters", "Webhook 死信"], endpoint: ["Endpoint", "端点"], event: ["Event", "事件"], attempts: ["Attempts", "尝试次数"], retry: ["Retry", "重试"], retry_all: ["Retry all of {0}", "重试 {0} 的全部"], drop: ["Drop", "丢弃"], drop_all: ["Drop all of {0}", "丢弃 {0} 的全部"], retried: ["{0} are sent again.", "将重新发送 {0} 条。"], dropped: ["{0} were dropped.", "已丢弃 {0} 条。"],
  // Live
  watching: ["Watching for changes…", "正在监听变更…"], connecting: ["Connecting…", "正在连接…"], lost: ["The connection is lost; trying again in {0} s.", "连接中断，{0} 秒后重试。"], gap: ["The service no longer keeps all changes since the connection was lost; some are missing here.", "服务已不再保留中断期间的全部变更，此处有缺失。"], action: ["Action", "动作"], time: ["Time", "时间"],
};

export function words(language) {
  const place = language === "zh" ? 1 : 0;
  return (key, ...values) => {
    const found = WORDS[key];
    const text = found ? found[place] : key;
    return values.reduce((told, value, index) => told.replace(`{${index}}`, String(value)), text);
  };
}

/** The short name of a value of an enum: "MEMORY_STATUS_ACTIVE" is "active". */
export function short(value, prefix) {
  return (value || "").replace(prefix, "").toLowerCase().replaceAll("_", " ");
}
