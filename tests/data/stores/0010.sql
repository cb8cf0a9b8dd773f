BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0010');
CREATE TABLE answered_approvals (
	owner VARCHAR(80) NOT NULL, 
	request VARCHAR(80) NOT NULL, 
	answered_at DOUBLE NOT NULL, 
	CONSTRAINT pk_answered_approvals PRIMARY KEY (owner, request)
);
INSERT INTO "answered_approvals" VALUES('2c70e12b7a0646f92279f427c7b38e73','25c682128f3b4d234f780ff0998c935c7992c75ae89904dfba5908d72020199b',1.79586387773598432542e+09);
CREATE TABLE chat_calls (
	call_id VARCHAR(80) NOT NULL, 
	turn VARCHAR(80) NOT NULL, 
	length INTEGER NOT NULL, 
	completion_id VARCHAR(80) NOT NULL, 
	CONSTRAINT pk_chat_calls PRIMARY KEY (call_id), 
	CONSTRAINT fk_chat_calls_completion_id FOREIGN KEY(completion_id) REFERENCES chat_completions (id) ON DELETE CASCADE
);
INSERT INTO "chat_calls" VALUES('call_c','call_c',2,'chatcmpl_1');
CREATE TABLE chat_completions (
	place INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id VARCHAR(80) NOT NULL, 
	owner VARCHAR(80) NOT NULL, 
	created_at DOUBLE NOT NULL, 
	model TEXT NOT NULL, 
	body TEXT NOT NULL, 
	messages BLOB NOT NULL, 
	CONSTRAINT uq_chat_completions_id UNIQUE (id)
);
INSERT INTO "chat_completions" VALUES(1,'chatcmpl_1','2c70e12b7a0646f92279f427c7b38e73',1.79586387771800017358e+09,'m','{"id":"chatcmpl_1","object":"chat.completion","created":1767225600,"model":"m","metadata":{}}',X'785E8BAE56CA4C51B2524ACE482C49CE2DC88937D43550D2512ACACF49058A9616A7160179C9F97925A9792540018F4C85C32B956A6301E9AA11FE');
CREATE TABLE chat_messages (
	turn VARCHAR(80) NOT NULL, 
	position INTEGER NOT NULL, 
	completion_id VARCHAR(80) NOT NULL, 
	message TEXT NOT NULL, 
	tokens BLOB, 
	CONSTRAINT pk_chat_messages PRIMARY KEY (turn, position), 
	CONSTRAINT fk_chat_messages_completion_id FOREIGN KEY(completion_id) REFERENCES chat_completions (id) ON DELETE CASCADE
);
INSERT INTO "chat_messages" VALUES('call_c',0,'chatcmpl_1','{"role":"assistant","content":"Hm… 東京","channel":"analysis"}',X'785E73E56566B0E96660F000D220000010C30175');
INSERT INTO "chat_messages" VALUES('call_c',1,'chatcmpl_1','{"role":"assistant","content":"{\"a\": 1}","channel":"commentary","recipient":"functions.f","content_type":"<|constrain|>json"}',NULL);
CREATE TABLE chat_metadata (
	completion_id VARCHAR(80) NOT NULL, 
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_chat_metadata PRIMARY KEY (completion_id, "key"), 
	CONSTRAINT fk_chat_metadata_completion_id FOREIGN KEY(completion_id) REFERENCES chat_completions (id) ON DELETE CASCADE
);
CREATE TABLE container_files (
	place INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id VARCHAR(80) NOT NULL, 
	container_id VARCHAR(80) NOT NULL, 
	path TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	source VARCHAR(10) NOT NULL, 
	created_at DOUBLE NOT NULL, 
	modified BIGINT NOT NULL, 
	origin VARCHAR(80), 
	CONSTRAINT uq_container_files_id UNIQUE (id), 
	CONSTRAINT fk_container_files_container_id FOREIGN KEY(container_id) REFERENCES containers (id) ON DELETE CASCADE
);
INSERT INTO "container_files" VALUES(1,'cfile_1','cntr_1','a/b.csv',3,'user',1767225600.0,1767225600000000000,'file-1');
CREATE TABLE containers (
	place INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id VARCHAR(80) NOT NULL, 
	owner VARCHAR(80) NOT NULL, 
	name TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	last_active_at DOUBLE NOT NULL, 
	idle_minutes INTEGER NOT NULL, 
	memory_limit VARCHAR(10) NOT NULL, 
	expired BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT uq_containers_id UNIQUE (id)
);
INSERT INTO "containers" VALUES(1,'cntr_1','2c70e12b7a0646f92279f427c7b38e73','box',1767225600.0,1767225600.0,20,'4g',0);
CREATE TABLE conversation_items (
	place INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	conversation_id VARCHAR(80) NOT NULL, 
	item_id VARCHAR(80) NOT NULL, 
	item TEXT NOT NULL, 
	message TEXT, 
	tokens BLOB, result TEXT, 
	CONSTRAINT fk_conversation_items_conversation_id FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
INSERT INTO "conversation_items" VALUES(1,'conv_1','msg_1','{"id":"msg_1","type":"message","role":"user","content":"Hi"}',NULL,NULL,NULL);
INSERT INTO "conversation_items" VALUES(2,'conv_1','rs_2','{"id":"rs_2","type":"reasoning","summary":[]}','{"role":"assistant","content":"Hm… 東京","channel":"analysis"}',X'785E73E56566B0E96660F000D220000010C30175',NULL);
CREATE TABLE conversations (
	id VARCHAR(80) NOT NULL, 
	owner VARCHAR(80) NOT NULL, 
	created_at DOUBLE NOT NULL, 
	start_date VARCHAR(10) NOT NULL, 
	metadata TEXT NOT NULL, touched_at DOUBLE DEFAULT 0 NOT NULL, tool_state TEXT, 
	CONSTRAINT pk_conversations PRIMARY KEY (id)
);
INSERT INTO "conversations" VALUES('conv_1','2c70e12b7a0646f92279f427c7b38e73',1767225600.0,'2026-01-02','{"topic":"test"}',1.79586387771401691433e+09,NULL);
CREATE TABLE events (
	response_id VARCHAR(80) NOT NULL, 
	first INTEGER NOT NULL, 
	count INTEGER NOT NULL, 
	body BLOB NOT NULL, 
	CONSTRAINT pk_events PRIMARY KEY (response_id, first), 
	CONSTRAINT fk_events_response_id FOREIGN KEY(response_id) REFERENCES responses (id) ON DELETE CASCADE
);
INSERT INTO "events" VALUES('resp_1',0,3,X'785E75505D6AC3300CBE4AD1EB4249026BC157E98AF11C65181C39B3E5B25272A09D63179B9C3621B0CE0F7E90BE5F9D6EC0D7114141C434064AB8B7110D63071524FCCC481635E5E11D23A87AAAFEE243E631B366FCE27D879ECD336653C17DA7E0E7FB2DD7F2E099980DC3E8F11FFBB65A5382BA81EB1EB17523968FD8DA30A8E67838B6EDEBA1AEA5041BCE49905BE931E2C5859CF4D25A1731CADE8B50A00BC664D8055A66F78EA04E8B6B9A3DD7D39914C8D147699E87C1C4AB40CFA5DF9CD1BA2DDA860EB523C62829E4D7D6785F0AC85CC0CDEE65D7CCB799B9BDDD72FB4CB6E45A39429DA34311D15164C80C45A687E93C4DE75F388BA37E');
CREATE TABLE files (
	place INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id VARCHAR(80) NOT NULL, 
	owner VARCHAR(80) NOT NULL, 
	filename TEXT NOT NULL, 
	purpose VARCHAR(80) NOT NULL, 
	size BIGINT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	expires_at DOUBLE, 
	CONSTRAINT uq_files_id UNIQUE (id)
);
INSERT INTO "files" VALUES(1,'file-1','2c70e12b7a0646f92279f427c7b38e73','é.csv','user_data',3,1767225600.0,3534451200.0);
CREATE TABLE items (
	place INTEGER NOT NULL, 
	response_id VARCHAR(80) NOT NULL, 
	side SMALLINT NOT NULL, 
	item_id VARCHAR(80) NOT NULL, 
	call_id VARCHAR(80), 
	item TEXT NOT NULL, 
	message TEXT, 
	tokens BLOB, result TEXT, 
	CONSTRAINT pk_items PRIMARY KEY (place), 
	CONSTRAINT fk_items_response_id FOREIGN KEY(response_id) REFERENCES responses (id) ON DELETE CASCADE
);
INSERT INTO "items" VALUES(1,'resp_1',0,'msg_in',NULL,'{"id":"msg_in","type":"message","role":"user","content":"Hi \u0000 é"}',NULL,NULL,NULL);
INSERT INTO "items" VALUES(2,'resp_1',1,'rs_1',NULL,'{"id":"rs_1","type":"reasoning","summary":[]}','{"role":"assistant","content":"Hm… 東京","channel":"analysis"}',X'785E73E56566B0E96660F000D220000010C30175',NULL);
INSERT INTO "items" VALUES(3,'resp_1',1,'ci_1',NULL,'{"id":"ci_1","type":"code_interpreter_call","code":"1 + 1"}','{"role":"assistant","content":"1 + 1","channel":"analysis","recipient":"python","content_type":"code"}',X'785E73E56566A8176466000004D200E9','{"role":"tool","name":"python","content":"2","channel":"analysis","recipient":"assistant"}');
INSERT INTO "items" VALUES(4,'resp_1',1,'fc_1','call_r','{"id":"fc_1","type":"function_call","call_id":"call_r","name":"f"}','{"role":"assistant","content":"{\"a\": 1}","channel":"commentary","recipient":"functions.f","content_type":"<|constrain|>json"}',NULL,NULL);
INSERT INTO "items" VALUES(5,'resp_2',0,'out_1','call_r','{"id":"out_1","type":"function_call_output","call_id":"call_r"}',NULL,NULL,NULL);
CREATE TABLE responses (
	id VARCHAR(80) NOT NULL, 
	owner VARCHAR(80) NOT NULL, 
	previous_id VARCHAR(80), 
	conversation_id VARCHAR(80), 
	seen BIGINT, 
	created_at DOUBLE NOT NULL, 
	deleted BOOLEAN DEFAULT 0 NOT NULL, 
	start_date VARCHAR(10) NOT NULL, 
	body TEXT NOT NULL, tool_state TEXT, 
	CONSTRAINT pk_responses PRIMARY KEY (id), 
	CONSTRAINT fk_responses_previous_id FOREIGN KEY(previous_id) REFERENCES responses (id)
);
INSERT INTO "responses" VALUES('resp_1','2c70e12b7a0646f92279f427c7b38e73',NULL,NULL,NULL,1.79586387769100379947e+09,0,'2026-01-01','{"id":"resp_1","created_at":1767225600,"status":"completed","previous_response_id":null,"conversation":null}','{"code_interpreter":{"container_id":"cntr_1"}}');
INSERT INTO "responses" VALUES('resp_2','2c70e12b7a0646f92279f427c7b38e73','resp_1',NULL,NULL,1.79586387771099948882e+09,0,'2026-01-01','{"id":"resp_2","created_at":1767225600,"status":"completed","previous_response_id":"resp_1","conversation":null}','{"code_interpreter":{"container_id":"cntr_1"}}');
CREATE TABLE runs (
	response_id VARCHAR(80) NOT NULL, 
	gateway VARCHAR(80) NOT NULL, 
	beat_at DOUBLE NOT NULL, 
	cancelled BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_runs PRIMARY KEY (response_id), 
	CONSTRAINT fk_runs_response_id FOREIGN KEY(response_id) REFERENCES responses (id) ON DELETE CASCADE
);
CREATE TABLE secrets (
	name VARCHAR(80) NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_secrets PRIMARY KEY (name)
);
INSERT INTO "secrets" VALUES('seal','ssssssssssssssssssssssssssssssssssssssssssA=');
CREATE INDEX ix_conversation_items_conversation_id_place ON conversation_items (conversation_id, place);
CREATE INDEX ix_responses_previous_id ON responses (previous_id);
CREATE INDEX ix_responses_created_at ON responses (created_at);
CREATE INDEX ix_responses_deleted ON responses (id) WHERE deleted;
CREATE INDEX ix_items_response_id ON items (response_id);
CREATE INDEX ix_items_item_id ON items (item_id);
CREATE INDEX ix_items_call_id ON items (call_id);
CREATE INDEX ix_chat_completions_created_at ON chat_completions (created_at);
CREATE INDEX ix_chat_completions_owner_place ON chat_completions (owner, place);
CREATE INDEX ix_conversations_touched_at ON conversations (touched_at);
CREATE INDEX ix_files_created_at ON files (created_at);
CREATE INDEX ix_files_expires_at ON files (expires_at);
CREATE INDEX ix_files_owner_place ON files (owner, place);
CREATE INDEX ix_containers_last_active_at ON containers (last_active_at);
CREATE INDEX ix_containers_owner_place ON containers (owner, place);
CREATE UNIQUE INDEX ix_container_files_container_id_path ON container_files (container_id, path);
CREATE INDEX ix_answered_approvals_answered_at ON answered_approvals (answered_at);
CREATE INDEX ix_conversations_owner_created_at ON conversations (owner, created_at, id);
CREATE INDEX ix_responses_owner_created_at ON responses (owner, created_at, id);
CREATE INDEX ix_chat_messages_completion_id ON chat_messages (completion_id);
CREATE INDEX ix_chat_calls_completion_id ON chat_calls (completion_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('conversation_items',2);
INSERT INTO "sqlite_sequence" VALUES('chat_completions',1);
INSERT INTO "sqlite_sequence" VALUES('files',1);
INSERT INTO "sqlite_sequence" VALUES('containers',1);
INSERT INTO "sqlite_sequence" VALUES('container_files',1);
COMMIT;
